// mixture: the walk from the root to a source.
#include "data/mixture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/philox.h"

namespace shardproof {
namespace {

constexpr double resolution = 4294967296.0;  // 2^32

}  // namespace

Mixture::Node Mixture::node(int begin, int end) {
  return {begin, begin + (end - begin) / 2, end};
}

Mixture::Mixture(const std::vector<double>& weights, std::uint64_t seed) : upto_{0} {
  SP_CHECK(!weights.empty() && weights.size() <= 65536, fmt::format("{} weights", weights.size()));
  double sum = 0;
  for (const double weight : weights) {
    SP_CHECK(std::isfinite(weight) && weight >= 0, fmt::format("weight {}", weight));
    sum += weight;
  }
  SP_CHECK(sum > 0 && std::isfinite(sum), fmt::format("weights of {}", sum));
  for (const double weight : weights) {
    const double share = weight == 0 ? 0 : std::max(1.0, std::round(weight / sum * resolution));
    upto_.push_back(upto_.back() + static_cast<std::uint64_t>(share));
  }
  // Every middle splits one node of the tree.
  phases_.resize(weights.size());
  const Random random(seed, Purpose::mixture);
  std::vector<Node> open{node(0, sources())};
  while (!open.empty()) {
    const auto [begin, middle, end] = open.back();
    open.pop_back();
    if (end - begin < 2) continue;
    const auto at = static_cast<std::size_t>(middle);
    const std::uint64_t weight =
        upto_[static_cast<std::size_t>(end)] - upto_[static_cast<std::size_t>(begin)];
    if (weight > 0) phases_[at] = random.below(weight, at);
    open.push_back(node(begin, middle));
    open.push_back(node(middle, end));
  }
}

std::int64_t Mixture::left(const Node& node, std::int64_t positions) const {
  const auto upto = [this](int source) { return upto_[static_cast<std::size_t>(source)]; };
  const std::uint64_t all = upto(node.end) - upto(node.begin);
  if (all == 0) return 0;  // never drawn
  __extension__ using Wide = unsigned __int128;
  const Wide line =
      Wide{upto(node.middle) - upto(node.begin)} * static_cast<std::uint64_t>(positions) +
      phases_[static_cast<std::size_t>(node.middle)];
  return static_cast<std::int64_t>(line / all);
}

Mixture::Draw Mixture::at(std::int64_t position) const {
  SP_CHECK(position >= 0, fmt::format("position {}", position));
  Node at = node(0, sources());
  while (at.end - at.begin > 1) {
    const std::int64_t before = left(at, position);
    const bool goes_left = left(at, position + 1) > before;
    position = goes_left ? before : position - before;
    at = goes_left ? node(at.begin, at.middle) : node(at.middle, at.end);
  }
  return {at.begin, position};
}

std::int64_t Mixture::count(int source, std::int64_t positions) const {
  SP_CHECK(source >= 0 && source < sources() && positions >= 0,
           fmt::format("source {} of {}, {} positions", source, sources(), positions));
  Node at = node(0, sources());
  while (at.end - at.begin > 1) {
    const std::int64_t before = left(at, positions);
    const bool goes_left = source < at.middle;
    positions = goes_left ? before : positions - before;
    at = goes_left ? node(at.begin, at.middle) : node(at.middle, at.end);
  }
  return positions;
}

std::uint64_t Mixture::share(int source) const {
  const auto at = static_cast<std::size_t>(source);
  return upto_.at(at + 1) - upto_.at(at);
}

}  // namespace shardproof

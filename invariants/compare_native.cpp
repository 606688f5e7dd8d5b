// compare_native: step by step while the weights are the same; norms per tensor.
#include "invariants/compare_native.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "invariants/compare.h"
#include "invariants/compare_errors.h"
#include "invariants/tensor_distance.h"

namespace shardproof {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

Difference scalar_address(std::int64_t step, const char* phase, int rank) {
  return {step, phase, "", -1, rank, -1, "", ""};
}

// What no rounding explains, at any step.
std::optional<Difference> exact_difference(const Trace& expected, const Trace& found,
                                           std::int64_t step) {
  const std::vector<std::int64_t> want = world_samples(expected, step),
                                  have = world_samples(found, step);
  if (want != have) {
    Difference out = scalar_address(step, "samples", -1);
    out.left = fmt::format("[{}]", fmt::join(want, ","));
    out.right = fmt::format("[{}]", fmt::join(have, ","));
    return out;
  }
  const StepRecord* left = expected.ranks.front().find_step(step);
  for (const RankTrace& rank : found.ranks) {
    const StepRecord* right = rank.find_step(step);
    Difference out = scalar_address(step, "step", rank.rank);
    out.left = left == nullptr ? "missing" : "done";
    out.right = right == nullptr ? "missing" : "done";
    if (out.left != out.right) return out;
    if (left == nullptr) continue;
    StepRecord same = *right;  // loss and norm may be rounded otherwise
    same.loss = left->loss;
    same.grad_norm = left->grad_norm;
    if (auto first = compare_scalars(*left, same)) {
      first->rank = rank.rank;
      return first;
    }
  }
  return std::nullopt;
}

std::optional<Difference> loss_difference(const Trace& expected, const Trace& found,
                                          std::int64_t step) {
  const StepRecord* want = expected.ranks.front().find_step(step);
  for (const RankTrace& rank : found.ranks) {
    const StepRecord* have = rank.find_step(step);
    if (want == nullptr || have == nullptr) continue;
    const double bound = native_loss().bound * std::abs(want->loss);
    if (std::abs(have->loss - want->loss) <= bound) continue;  // false for a NaN
    Difference out = scalar_address(step, "loss", rank.rank);
    out.left = fmt::format("{:.12g} within {:.2g}", want->loss, bound);
    out.right = fmt::format("{:.12g}", have->loss);
    return out;
  }
  return std::nullopt;
}

// Norms of whole tensors from the records of distinct places that add up to the tensor.
std::map<std::string, double> traced_norms(const Trace& trace, std::int64_t step) {
  std::map<std::string, std::map<std::tuple<Shape, Shape, std::int64_t, std::int64_t>, double>>
      places;
  std::map<std::string, std::int64_t> counts;
  for (const RankTrace& rank : trace.ranks) {
    for (const TensorRecord& record : rank.tensors) {
      if (record.step != step || record.what != "grad") continue;
      const ElementRange range = elements_of(record.place);
      const Box& box = record.place.box;
      const auto fresh = places[record.place.name].try_emplace(
          {box.offsets, box.shape, range.lo, range.hi}, record.norm);
      if (fresh.second) counts[record.place.name] += range.size();
      if (counts[record.place.name] > element_count(record.place.global_shape)) {
        return {};  // places that overlap: their norms do not add up
      }
    }
  }
  std::map<std::string, double> out;
  for (const auto& [name, held] : places) {
    double squares = 0;
    for (const auto& [place, norm] : held) squares += norm * norm;
    out[name] = std::sqrt(squares);
  }
  return out;
}

class StepJudge {
 public:
  StepJudge(const Trace& expected, const Trace& found, std::int64_t step, NativeComparison& out)
      : expected_(expected), found_(found), step_(step), out_(out) {}

  void judge() {
    const std::int64_t before = out_.tensors;
    judge_bytes();
    if (out_.tensors == before) judge_norms();
    judge_grad_norm();
  }

 private:
  void keep(double ratio, const Difference& address) {
    if (std::isnan(ratio)) ratio = infinite;
    if (ratio >= out_.ratio) {
      out_.ratio = ratio;
      out_.worst = address;
    }
    if (ratio > 1 && !out_.first) out_.first = address;
  }

  Difference tensor_address(const std::string& name) const {
    return {step_, "grad", name, -1, -1, -1, "", ""};
  }

  void judge_bytes() {
    const BytesMap want = bytes_at(expected_, step_, "grad"),
                   have = bytes_at(found_, step_, "grad");
    if (want.empty() || have.empty()) return;
    double squares = 0;
    for (const auto& [name, entries] : want) {
      const double norm = norm_of(entries);
      squares += norm * norm;
    }
    all_ = std::sqrt(squares);
    unit_ = roundoff(want.begin()->second.front().entry.dtype);
    if (unit_ == 0) {
      out_.incomparable = "gradients are neither F32 nor BF16";
      return;
    }
    for (const auto& [name, entries] : have) {
      const auto expected = want.find(name);
      if (expected == want.end()) {
        missing(name, true);
      } else {
        judge_tensor(name, entries, expected->second);
      }
    }
    for (const auto& [name, entries] : want) {
      if (!have.contains(name)) missing(name, false);
    }
  }

  void missing(const std::string& name, bool expected) {
    Difference address = tensor_address(name);
    address.left = expected ? "nothing" : "a tensor";
    address.right = expected ? "a tensor" : "nothing";
    keep(infinite, address);
  }

  void judge_tensor(const std::string& name, const std::vector<HeldBytes>& entries,
                    const std::vector<HeldBytes>& expected) {
    ++out_.tensors;
    Difference address = tensor_address(name);
    const std::vector<HeldBytes>* sides[] = {&entries};
    const TensorDistance distance = distances_from(expected, sides).sides.front();
    if (!distance.problem.empty()) {
      address.left = fmt::format("shape [{}], whole",
                                 fmt::join(expected.front().entry.place.global_shape, ","));
      address.right = distance.problem;
      return keep(infinite, address);
    }
    const double allowed = native_pair().bound * unit_ * all_;
    tell_farthest(address, distance, expected, entries);
    address.left += fmt::format("; the tensor within {:.2g}", allowed);
    address.right += fmt::format("; the tensor off by {:.2g}", distance.norm);
    const double ratio = distance.norm == 0 ? 0 : distance.norm / allowed;
    if (std::isfinite(ratio)) address.times = ratio;
    keep(ratio, address);
  }

  // Without bytes: norms that differ say that gradients do, equal ones do not say that they agree.
  void judge_norms() {
    const auto want = traced_norms(expected_, step_), have = traced_norms(found_, step_);
    double squares = 0;
    for (const auto& [name, norm] : want) squares += norm * norm;
    all_ = std::sqrt(squares);
    for (const auto& [name, norm] : want) {
      const auto other = have.find(name);
      if (other != have.end()) judge_norm(tensor_address(name), norm, other->second);
    }
    if (out_.incomparable.empty()) {
      out_.incomparable = fmt::format(
          "the bytes of gradients of step {} were not captured on both sides (--trace-tensors "
          "-1,0); their norms agree",
          step_);
    }
  }

  void judge_norm(Difference address, double want, double have) {
    const double allowed = native_pair().bound * unit_ * all_;
    address.left = fmt::format("norm {:.12g} within {:.2g}", want, allowed);
    address.right = fmt::format("norm {:.12g}", have);
    keep(want == have ? 0 : std::abs(want - have) / allowed, address);
  }

  void judge_grad_norm() {
    const StepRecord* want = expected_.ranks.front().find_step(step_);
    for (const RankTrace& rank : found_.ranks) {
      const StepRecord* have = rank.find_step(step_);
      if (want == nullptr || have == nullptr) continue;
      all_ = std::abs(want->grad_norm);
      judge_norm(scalar_address(step_, "grad_norm", rank.rank), want->grad_norm, have->grad_norm);
    }
  }

  const Trace& expected_;
  const Trace& found_;
  const std::int64_t step_;
  NativeComparison& out_;
  double all_ = 0;  // the norm of all gradients of the step
  double unit_ = 0x1p-24;
};

}  // namespace

const Policy& native_pair() {
  static const Policy policy{
      Policy::Kind::error_model, 16,
      "two layouts add in two orders, and a gradient that cancels (a key's bias) is all rounding "
      "of terms as large as its neighbours: so relative to the whole gradient, of which clean runs "
      "were measured at up to 1.2 u off"};
  return policy;
}

NativeComparison compare_native(const Trace& expected, const Trace& found, std::int64_t from,
                                std::int64_t to) {
  NativeComparison out;
  bool same_weights = true;
  for (std::int64_t step = from; step <= to; ++step) {
    ++out.steps;
    if ((out.first = exact_difference(expected, found, step))) return out;
    if (!same_weights) continue;
    const TensorComparison weights = compare_tensors(expected, found, step - 1, "param");
    const bool unknown = !weights.incomparable.empty() || weights.compared == 0;
    if (step == from && weights.first) {
      out.first = weights.first;
      return out;
    }
    // Beyond the first step weights that cannot be compared are other weights.
    same_weights = !weights.first && !(step > from && unknown);
    if (!same_weights) continue;
    if (unknown) {
      out.incomparable = weights.incomparable.empty()
                             ? fmt::format("the weights before step {} were not traced", step)
                             : weights.incomparable;
    }
    if ((out.first = loss_difference(expected, found, step))) return out;
    StepJudge(expected, found, step, out).judge();
    if (out.first) return out;
    ++out.judged;
  }
  return out;
}

}  // namespace shardproof

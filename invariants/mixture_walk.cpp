// mixture_walk: epochs and shares of sources.
#include "invariants/mixture_walk.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace shardproof {
namespace {

// Weights may be rounded to 32 bits of their sum, so a share drifts by this much a sample.
constexpr double rounding = 0x1p-31;

// By how many samples a source may be off its share.
double bound(std::size_t sources) {
  return std::max(1.0, std::ceil(std::log2(static_cast<double>(sources))));
}

bool is_legal(const std::vector<SourceFact>& sources) {
  std::int64_t next = 0;
  double weights = 0;
  for (const SourceFact& each : sources) {
    constexpr std::int64_t most = std::int64_t{1} << 56;
    if (each.first != next || each.size < 1 || each.size > most || next > most) return false;
    if (!std::isfinite(each.weight) || each.weight < 0) return false;
    next += each.size;
    weights += each.weight;
  }
  return weights > 0 && std::isfinite(weights);
}

}  // namespace

std::optional<std::vector<SourceFact>> source_facts(const Trace& trace) {
  std::vector<SourceFact> out;
  const Json none = Json::object();
  const Json& run = trace.ranks.empty() ? none : trace.ranks.front().run;
  const Json::json_pointer path("/data/sources");
  if (!run.is_object() || !run.contains(path)) return out;
  try {
    for (const Json& each : run.at(path)) {
      out.push_back({each.at("name").get<std::string>(), each.at("first").get<std::int64_t>(),
                     each.at("size").get<std::int64_t>(), each.at("weight").get<double>()});
    }
  } catch (const Json::exception&) {
    return std::nullopt;
  }
  if (!is_legal(out)) return std::nullopt;
  return out;
}

MixtureWalk::MixtureWalk(const std::vector<SourceFact>& sources, bool midway) : midway_(midway) {
  for (const SourceFact& each : sources) sources_.push_back({each, midway});
}

std::string MixtureWalk::remix(const std::vector<SourceFact>& sources) {
  bool same = sources.size() == sources_.size();
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const SourceFact& there = sources_[i].fact;
    if (i >= sources.size() || sources[i].name != there.name || sources[i].size != there.size) {
      return fmt::format("source {} of {} samples is not where it was before", there.name,
                         there.size);
    }
    same = same && sources[i].weight == there.weight;
  }
  if (same) return "";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (i >= sources_.size()) sources_.push_back({sources[i], false});
    sources_[i].fact = sources[i];
    sources_[i].taken = 0;
  }
  taken_ = 0;
  midway_ = false;  // these weights begin here
  return "";
}

std::string MixtureWalk::step(const std::vector<std::int64_t>& ids) {
  std::vector<std::vector<std::int64_t>> shares(sources_.size());
  for (const std::int64_t id : ids) {
    std::size_t at = 0;
    while (at < sources_.size() && id >= sources_[at].fact.first + sources_[at].fact.size) ++at;
    if (id < 0 || at == sources_.size()) return fmt::format("sample {} does not exist", id);
    shares[at].push_back(id);
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    if (std::string problem = cover(sources_[i], shares[i]); !problem.empty()) return problem;
    sources_[i].taken += static_cast<std::int64_t>(shares[i].size());
  }
  taken_ += static_cast<std::int64_t>(ids.size());
  return this->shares();
}

std::string MixtureWalk::cover(Source& source, const std::vector<std::int64_t>& ids) {
  const auto left = source.fact.size - static_cast<std::int64_t>(source.seen.size());
  if (!source.midway && static_cast<std::int64_t>(ids.size()) > left) {
    return finish_epochs(source, ids);
  }
  for (const std::int64_t id : ids) {
    if (source.seen.insert(id).second) continue;
    if (!source.midway) {
      return fmt::format("takes sample {} of source {} again while {} of {} were not yet taken", id,
                         source.fact.name, left, source.fact.size);
    }
    if (open_.empty()) {
      open_ = fmt::format(
          "the trace begins inside an epoch of source {}, which ends in it: what "
          "was taken before is not known",
          source.fact.name);
    }
  }
  if (static_cast<std::int64_t>(source.seen.size()) == source.fact.size && !source.midway) {
    ++source.epochs;
    source.seen.clear();
  }
  return "";
}

// More samples than the epoch has left: all of those, whole epochs, and samples of one more.
std::string MixtureWalk::finish_epochs(Source& source, const std::vector<std::int64_t>& ids) {
  std::map<std::int64_t, std::int64_t> times;
  for (const std::int64_t id : ids) ++times[id];
  const std::int64_t begin = source.fact.first, end = begin + source.fact.size;
  auto rest = static_cast<std::int64_t>(ids.size());
  for (std::int64_t id = begin; id < end; ++id) {
    if (source.seen.contains(id)) continue;
    if (times[id] == 0) {
      return fmt::format("begins an epoch of source {} without sample {} of the last one",
                         source.fact.name, id);
    }
    --times[id];
    --rest;
  }
  const std::int64_t whole = rest / source.fact.size;
  source.seen.clear();
  for (std::int64_t id = begin; id < end; ++id) {
    const std::int64_t more = times[id] - whole;
    if (more < 0 || more > 1) {
      return fmt::format("takes sample {} of source {} {} times in {} epochs", id, source.fact.name,
                         times[id], whole + 1);
    }
    if (more == 1) source.seen.insert(id);
  }
  source.epochs += 1 + whole;
  return "";
}

std::string MixtureWalk::shares() const {
  double weights = 0;
  for (const Source& source : sources_) weights += source.fact.weight;
  const auto all = static_cast<double>(taken_);
  // Off at the first step as well, where that is not the first of these weights.
  const double most = bound(sources_.size()) * (midway_ ? 2 : 1) + all * rounding;
  for (const Source& source : sources_) {
    const double expected = source.fact.weight / weights * all;
    const auto found = static_cast<double>(source.taken);
    if (std::abs(found - expected) < most && (source.fact.weight > 0 || source.taken == 0)) {
      continue;
    }
    return fmt::format("has taken {} of {} samples from source {}, whose weight gives {:.1f}",
                       source.taken, taken_, source.fact.name, expected);
  }
  return "";
}

std::string MixtureWalk::epochs() const {
  std::vector<std::string> words;
  for (const Source& source : sources_) {
    words.push_back(fmt::format("{} {} epochs and {} samples", source.fact.name, source.epochs,
                                source.seen.size()));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

}  // namespace shardproof

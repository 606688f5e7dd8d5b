// data: which samples each step took. An epoch covers every sample once, data ranks are disjoint,
// ranks of one model copy see the same samples, and every step takes the same number.
#include <map>
#include <set>

#include "invariants/ruling.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr std::int64_t filler = -1;  // fills a short batch

struct Problem {
  std::int64_t step = 0;
  int rank = -1;
  std::string text;
};

// The ranks that must see the same samples have the same data coordinates.
std::string data_coordinates(const RankTrace& rank) {
  if (rank.run.is_object() && rank.run.contains("coords")) {
    const Json& coords = rank.run["coords"];
    const auto at = [&](const char* axis) {
      return coords.contains(axis) ? coords[axis].dump() : std::string("0");
    };
    return at("dp") + "," + at("ep");
  }
  return std::to_string(rank.rank);
}

// Walks the steps in order and keeps the state of the epoch.
class Walk {
 public:
  explicit Walk(std::int64_t epoch_size) : size_(epoch_size) {}

  std::optional<Problem> step(const Trace& trace, std::int64_t step) {
    std::map<std::string, const StepRecord*> shares;
    std::vector<std::int64_t> ids;
    for (const RankTrace& rank : trace.ranks) {
      const StepRecord* record = rank.find_step(step);
      if (record == nullptr) return Problem{step, rank.rank, "has no record of this step"};
      const auto [at, fresh] = shares.try_emplace(data_coordinates(rank), record);
      if (fresh) {
        ids.insert(ids.end(), record->samples.begin(), record->samples.end());
      } else if (at->second->samples != record->samples) {
        return Problem{step, rank.rank, "sees other samples than its model-parallel peers"};
      }
    }
    return global_batch(step, ids);
  }

  std::int64_t seen() const { return static_cast<std::int64_t>(seen_.size()); }
  std::int64_t epochs() const { return epochs_; }
  std::int64_t batch() const { return batch_; }
  bool wrapped_unsized() const { return wrapped_unsized_; }

 private:
  std::optional<Problem> global_batch(std::int64_t step, const std::vector<std::int64_t>& ids) {
    const auto count = static_cast<std::int64_t>(ids.size());
    if (batch_ == 0) batch_ = count;
    if (count == 0 || count > batch_) {
      return Problem{step, -1, fmt::format("took {} samples, other steps {}", count, batch_)};
    }
    std::set<std::int64_t> now;
    bool repeats = false;
    for (const std::int64_t id : ids) {
      if (id == filler) continue;
      if (id < 0 || (size_ > 0 && id >= size_)) {
        return Problem{step, -1, fmt::format("sample {} does not exist (epoch of {})", id, size_)};
      }
      if (!now.insert(id).second) {
        return Problem{step, -1, fmt::format("sample {} is on two data ranks or taken twice", id)};
      }
      repeats = repeats || seen_.count(id) != 0;
    }
    if (repeats) {
      if (auto problem = end_epoch(step)) return problem;
    }
    seen_.insert(now.begin(), now.end());
    if (count < batch_ && seen() != size_) {  // a short batch is the end of an epoch
      return Problem{step, -1, fmt::format("took {} samples, other steps {}", count, batch_)};
    }
    return std::nullopt;
  }

  std::optional<Problem> end_epoch(std::int64_t step) {
    wrapped_unsized_ = wrapped_unsized_ || size_ == 0;
    const std::int64_t left = size_ - seen();
    if (size_ > 0 && left >= batch_) {
      return Problem{
          step, -1, fmt::format("repeats a sample while {} of {} were not yet taken", left, size_)};
    }
    seen_.clear();
    ++epochs_;
    return std::nullopt;
  }

  const std::int64_t size_;  // 0: not known
  std::int64_t batch_ = 0;
  std::set<std::int64_t> seen_;
  std::int64_t epochs_ = 0;
  bool wrapped_unsized_ = false;
};

std::int64_t epoch_size(const Trace& trace) {
  const Json& run = trace.ranks.front().run;
  if (!run.is_object() || !run.contains("data") || !run["data"].is_object()) return 0;
  const Json& data = run["data"];
  return data.contains("size") && data["size"].is_number_integer()
             ? data["size"].get<std::int64_t>()
             : 0;
}

}  // namespace

Verdict check_data(const Trace& trace, const Trace* before) {
  Verdict verdict = open_verdict("data",
                                 "no sample is taken twice in an epoch or by two data ranks, "
                                 "an epoch leaves less than one batch, every step takes the "
                                 "same number of samples");
  if (trace.ranks.empty() || trace.step_numbers().empty()) {
    return undecided(verdict, "no step was traced");
  }
  for (const RankTrace& rank : trace.ranks) {
    for (const StepRecord& step : rank.steps) {
      if (!step.samples.empty() || !step.extra.contains("samples")) continue;
      return undecided(verdict, "sample ids were traced as digests, not as lists");
    }
  }
  Walk walk(epoch_size(trace));
  const std::int64_t first = trace.step_numbers().front();
  const auto run = [&](const Trace& each, std::int64_t lo,
                       std::int64_t hi) -> std::optional<Problem> {
    for (const std::int64_t step : each.step_numbers()) {
      if (step < lo || step >= hi) continue;
      if (auto problem = walk.step(each, step)) return problem;
    }
    return std::nullopt;
  };
  std::optional<Problem> problem;
  if (before != nullptr) problem = run(*before, 0, first);
  if (!problem) problem = run(trace, first, trace.step_numbers().back() + 1);
  if (problem) {
    const std::string who = problem->rank < 0 ? "" : fmt::format("rank {} ", problem->rank);
    return fails(verdict, fmt::format("step {}: {}{}", problem->step, who, problem->text));
  }
  if (walk.wrapped_unsized()) {
    return undecided(verdict, "samples repeat and the trace does not say how many an epoch has");
  }
  verdict.notes.push_back(fmt::format("{} samples a step; {} whole epochs, {} samples of the next",
                                      walk.batch(), walk.epochs(), walk.seen()));
  return passes(verdict);
}

}  // namespace shardproof

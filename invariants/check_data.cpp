// data: which samples each step took. An epoch covers every sample once, data ranks are disjoint,
// ranks of one model copy see the same samples, and every step takes the same number. A filler
// stands for no sample. Of a mixture, source by source (mixture_walk.h).
#include <algorithm>
#include <map>
#include <set>

#include "invariants/mixture_walk.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/trace_checks.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

constexpr std::int64_t filler = -1;  // fills a short batch

struct Problem {
  std::int64_t step = 0;
  int rank = -1;
  std::string text;
};

// The ranks that must see the same samples have the same data coordinates: those of all axes but
// the ones along which a model copy is split.
std::string data_coordinates(const RankTrace& rank) {
  if (rank.run.is_object() && rank.run.contains("coords")) {
    std::string out;
    for (const auto& [axis, at] : rank.run["coords"].items()) {
      const bool splits = axis == "tp" || axis == "pp" || axis == "cp" || axis == "sp";
      if (!splits) out += fmt::format("{}={} ", axis, at.dump());
    }
    return out;
  }
  return std::to_string(rank.rank);
}

// How many real samples a step takes.
struct Batch {
  std::int64_t size = 0;
  std::string said_by;       // "training.global_batch" or what other steps took
  bool may_be_short = true;  // where it ends an epoch
  bool must_finish = false;  // an epoch leaves nothing
  bool declared = false;     // the config says what becomes of the last one
};

// Every rank's real samples of a step, each list once per data coordinate.
struct StepSamples {
  std::vector<std::int64_t> ids;
  std::optional<Problem> problem;
};

StepSamples samples_of(const Trace& trace, std::int64_t step) {
  std::map<std::string, const StepRecord*> shares;
  StepSamples out;
  for (const RankTrace& rank : trace.ranks) {
    const StepRecord* record = rank.find_step(step);
    if (record == nullptr) {
      out.problem = Problem{step, rank.rank, "has no record of this step"};
      return out;
    }
    const auto [at, fresh] = shares.try_emplace(data_coordinates(rank), record);
    if (!fresh && at->second->samples != record->samples) {
      out.problem = Problem{step, rank.rank, "sees other samples than its model-parallel peers"};
      return out;
    }
    if (!fresh) continue;
    for (const std::int64_t id : record->samples) {
      if (id != filler) out.ids.push_back(id);
    }
  }
  return out;
}

// Walks the steps in order and keeps the state of the epoch.
class Walk {
 public:
  // `size` of an epoch, 0 when not known; `before`: samples of the first epoch that were taken
  // elsewhere, nothing when that is not known.
  Walk(std::int64_t size, Batch batch, std::optional<std::int64_t> before)
      : size_(size), batch_(std::move(batch)), midway_(!before), before_(before.value_or(0)) {}

  std::optional<Problem> step(const Trace& trace, std::int64_t step) {
    StepSamples samples = samples_of(trace, step);
    return samples.problem ? samples.problem : take(step, samples.ids);
  }

  // The same walk after a step whose batch ends an epoch and begins the next one; nothing where it
  // cannot be so.
  std::optional<Walk> across(const Trace& trace, std::int64_t step) const {
    const StepSamples samples = samples_of(trace, step);
    const auto count = static_cast<std::int64_t>(samples.ids.size());
    const std::int64_t left = size_ - taken();
    const bool may = !batch_.declared && size_ > 0 && !midway_ && before_ == 0;
    if (!may || samples.problem || count != batch_.size || left < 1 || left >= count) return {};
    Walk after = *this;
    after.seen_.clear();
    std::set<std::int64_t> ending;
    for (const std::int64_t id : samples.ids) {
      if (id < 0 || id >= size_) return {};
      const bool ends = seen_.count(id) == 0 && ending.insert(id).second;
      if (!ends && !after.seen_.insert(id).second) return {};
    }
    if (static_cast<std::int64_t>(ending.size()) != left) return {};
    ++after.epochs_;
    return after;
  }

  std::int64_t seen() const { return static_cast<std::int64_t>(seen_.size()); }
  std::int64_t epochs() const { return epochs_; }
  const std::string& open() const { return open_; }  // what could not be decided

 private:
  std::optional<Problem> take(std::int64_t step, const std::vector<std::int64_t>& ids) {
    const auto count = static_cast<std::int64_t>(ids.size());
    const Problem wrong_count{
        step, -1, fmt::format("took {} samples, {} {}", count, batch_.said_by, batch_.size)};
    if (count == 0) return Problem{step, -1, "took no sample"};
    if (count > batch_.size) return wrong_count;
    if (ends_by_its_place()) {
      if (auto problem = end_epoch(step)) return problem;
    }
    std::set<std::int64_t> now;
    bool repeats = false;
    for (const std::int64_t id : ids) {
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
    if (size_ > 0 && taken() > size_) {
      return Problem{step, -1,
                     fmt::format("takes sample {} of an epoch of {}, by its step", taken(), size_)};
    }
    if (count == batch_.size) return std::nullopt;
    if (!batch_.may_be_short) return wrong_count;
    if (size_ == 0 || midway_) {
      leave_open(
          fmt::format("step {} took {} samples, {} {}: whether it ends an epoch is not "
                      "known",
                      step, count, batch_.said_by, batch_.size));
    } else if (taken() != size_) {
      return wrong_count;
    }
    return std::nullopt;
  }

  // Where samples were taken elsewhere, those of the next epoch need not repeat any that was seen.
  bool ends_by_its_place() const {
    return before_ > 0 && size_ - taken() < (batch_.must_finish ? 1 : batch_.size);
  }

  std::int64_t taken() const { return before_ + seen(); }  // of this epoch

  std::optional<Problem> end_epoch(std::int64_t step) {
    const std::int64_t left = size_ - taken();
    if (size_ == 0) {
      leave_open("samples repeat and the trace does not say how many an epoch has");
    } else if (midway_) {
      leave_open(
          "the trace begins inside an epoch, which ends in it: what was taken before is not "
          "known");
    } else if (left >= (batch_.must_finish ? 1 : batch_.size)) {
      return Problem{
          step, -1, fmt::format("repeats a sample while {} of {} were not yet taken", left, size_)};
    }
    midway_ = false;
    before_ = 0;
    seen_.clear();
    ++epochs_;
    return std::nullopt;
  }

  void leave_open(const std::string& reason) {
    if (open_.empty()) open_ = reason;
  }

  const std::int64_t size_;
  const Batch batch_;
  bool midway_;
  std::int64_t before_;
  std::set<std::int64_t> seen_;
  std::int64_t epochs_ = 0;
  std::string open_;
};

// What another program does where an epoch ends inside a batch is not said: it drops the rest, or
// goes on with the next epoch. Both are followed, as long as the samples fit.
class Walks {
 public:
  explicit Walks(Walk walk) { alive_.push_back(std::move(walk)); }

  std::optional<Problem> step(const Trace& trace, std::int64_t step) {
    constexpr std::size_t most = 64;
    std::vector<Walk> next;
    std::optional<Problem> first;
    for (const Walk& walk : alive_) {
      Walk stays = walk;
      if (auto problem = stays.step(trace, step)) {
        if (!first) first = std::move(problem);
      } else if (next.size() < most) {
        next.push_back(std::move(stays));
      }
      auto across = walk.across(trace, step);
      if (across && next.size() < most) next.push_back(std::move(*across));
    }
    if (next.empty()) return first;
    alive_.swap(next);
    return std::nullopt;
  }

  const Walk& walk() const { return alive_.front(); }

 private:
  std::vector<Walk> alive_;  // never empty
};

// As the config in the trace says; without one, what the largest step took.
Batch batch_of(const Trace& trace) {
  Batch batch;
  if (const auto said = integer_fact(trace, "/config/training/global_batch")) {
    batch.size = *said;
    batch.said_by = "training.global_batch is";
    const auto last = text_fact(trace, "/config/data/last");
    batch.may_be_short = last != "drop";
    batch.must_finish = last == "short";
    batch.declared = true;
    return batch;
  }
  batch.said_by = "other steps";
  for (const std::int64_t step : trace.step_numbers()) {
    const auto count = static_cast<std::int64_t>(samples_of(trace, step).ids.size());
    batch.size = std::max(batch.size, count);
  }
  return batch;
}

// Samples of its epoch before a step, as every earlier step took them: known where the config says
// the batch and what becomes of the last one.
std::optional<std::int64_t> taken_before(const Batch& batch, std::int64_t size, std::int64_t step) {
  if (step == 0) return 0;
  const bool declared = batch.must_finish || !batch.may_be_short;
  if (!declared || batch.size < 1 || size < batch.size) return std::nullopt;
  const std::int64_t steps = (batch.must_finish ? size + batch.size - 1 : size) / batch.size;
  return step % steps * batch.size;
}

// A step that says to lack its samples, which is not one that took none.
std::optional<std::int64_t> step_without_samples(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    for (const StepRecord& step : rank.steps) {
      if (is_missing(step, "samples")) return step.step;
    }
  }
  return std::nullopt;
}

// Be it a filler.
bool lists_samples(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    for (const StepRecord& step : rank.steps) {
      if (!step.samples.empty()) return true;
    }
  }
  return false;
}

bool has_sample_digests(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    for (const StepRecord& step : rank.steps) {
      if (step.extra.contains("samples")) return true;
    }
  }
  return false;
}

// The steps of a mixture, in order, and the mixture that each was taken from.
class MixtureJudge {
 public:
  MixtureJudge(const std::vector<SourceFact>& sources, Batch batch, bool midway)
      : walk_(sources, midway), batch_(std::move(batch)) {}

  std::optional<Problem> begin(const std::vector<SourceFact>& sources, std::int64_t step) {
    const std::string wrong = walk_.remix(sources);
    return wrong.empty() ? std::nullopt : std::optional(Problem{step, -1, wrong});
  }

  std::optional<Problem> step(const Trace& trace, std::int64_t step) {
    StepSamples samples = samples_of(trace, step);
    if (samples.problem) return samples.problem;
    const auto count = static_cast<std::int64_t>(samples.ids.size());
    if (count != batch_.size) {
      return Problem{step, -1,
                     fmt::format("took {} samples, {} {}", count, batch_.said_by, batch_.size)};
    }
    const std::string wrong = walk_.step(samples.ids);
    return wrong.empty() ? std::nullopt : std::optional(Problem{step, -1, wrong});
  }

  const MixtureWalk& walk() const { return walk_; }

 private:
  MixtureWalk walk_;
  const Batch batch_;
};

std::string place(const Problem& problem) {
  const std::string who = problem.rank < 0 ? "" : fmt::format("rank {} ", problem.rank);
  return fmt::format("step {}: {}{}", problem.step, who, problem.text);
}

Verdict judge_mixture(Verdict verdict, const Trace& trace, const Trace* before,
                      const std::vector<SourceFact>& sources) {
  const std::vector<std::int64_t> steps = trace.step_numbers();
  const auto earlier = before == nullptr ? sources : source_facts(*before);
  if (!earlier || earlier->empty()) {
    return undecided(verdict, "the steps before do not say from which sources they took");
  }
  const Batch batch = batch_of(trace);
  const std::vector<std::int64_t> all = before == nullptr ? steps : before->step_numbers();
  const bool midway = all.empty() || all.front() > 0;
  MixtureJudge judge(*earlier, batch, midway);
  std::optional<Problem> problem;
  if (before != nullptr) {
    for (const std::int64_t step : before->step_numbers()) {
      if (!problem && step < steps.front()) problem = judge.step(*before, step);
    }
    if (!problem) problem = judge.begin(sources, steps.front());
  }
  for (const std::int64_t step : steps) {
    if (!problem) problem = judge.step(trace, step);
  }
  if (problem) return fails(verdict, place(*problem));
  if (!judge.walk().open().empty()) return undecided(verdict, judge.walk().open());
  verdict.notes.push_back(fmt::format("{} samples a step; {}", batch.size, judge.walk().epochs()));
  return passes(verdict);
}

// Of another program's sampler, where the number of samples or a repetition is what is wrong.
std::string padding_hint(const Batch& batch, const Problem& problem) {
  const bool counts = problem.text.starts_with("took ") || problem.text.starts_with("repeats ") ||
                      problem.text.find("taken twice") != std::string::npos;
  if (batch.declared || !counts) return "";
  return " (a sampler that fills the last batch up for all ranks, as DistributedSampler does with "
         "drop_last=False, takes samples twice: name such fillers -1)";
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
  if (has_sample_digests(trace)) {
    return undecided(verdict, "sample ids were traced as digests, not as lists");
  }
  if (!lists_samples(trace)) return undecided(verdict, "no sample id was traced");
  if (const auto step = step_without_samples(trace)) {
    return undecided(verdict, fmt::format("no sample id at step {}", *step));
  }
  const std::vector<std::int64_t> steps = trace.step_numbers();
  const auto sources = source_facts(trace);
  if (!sources) return undecided(verdict, "what the trace says of its sources is no mixture");
  if (!sources->empty()) return judge_mixture(verdict, trace, before, *sources);
  const Batch batch = batch_of(trace);
  const std::int64_t size = integer_fact(trace, "/data/size").value_or(0);
  Walks walks(Walk(size, batch,
                   before != nullptr ? std::optional<std::int64_t>(0)
                                     : taken_before(batch, size, steps.front())));
  std::optional<Problem> problem;
  if (before != nullptr) {
    for (const std::int64_t step : before->step_numbers()) {
      if (!problem && step < steps.front()) problem = walks.step(*before, step);
    }
  }
  for (const std::int64_t step : steps) {
    if (!problem) problem = walks.step(trace, step);
  }
  if (problem) return fails(verdict, place(*problem) + padding_hint(batch, *problem));
  const Walk& walk = walks.walk();
  if (!walk.open().empty()) return undecided(verdict, walk.open());
  verdict.notes.push_back(fmt::format("{} samples a step; {} whole epochs, {} samples of the next",
                                      batch.size, walk.epochs(), walk.seen()));
  return passes(verdict);
}

}  // namespace shardproof

// data: which samples each step took, by epochs (data_walk.h); of a mixture, source by source
// (mixture_walk.h).
#include <algorithm>

#include "invariants/data_walk.h"
#include "invariants/mixture_walk.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/trace_checks.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

// As the config in the trace says; without one, what the largest step took.
DataBatch batch_of(const Trace& trace) {
  DataBatch batch;
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
std::optional<std::int64_t> taken_before(const DataBatch& batch, std::int64_t size,
                                         std::int64_t step) {
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
  MixtureJudge(const std::vector<SourceFact>& sources, DataBatch batch, bool midway)
      : walk_(sources, midway), batch_(std::move(batch)) {}

  std::optional<DataProblem> begin(const std::vector<SourceFact>& sources, std::int64_t step) {
    const std::string wrong = walk_.remix(sources);
    return wrong.empty() ? std::nullopt : std::optional(DataProblem{step, -1, wrong});
  }

  std::optional<DataProblem> step(const Trace& trace, std::int64_t step) {
    StepSamples samples = samples_of(trace, step);
    if (samples.problem) return samples.problem;
    const auto count = static_cast<std::int64_t>(samples.ids.size());
    if (count != batch_.size) {
      return DataProblem{step, -1,
                         fmt::format("took {} samples, {} {}", count, batch_.said_by, batch_.size)};
    }
    const std::string wrong = walk_.step(samples.ids);
    return wrong.empty() ? std::nullopt : std::optional(DataProblem{step, -1, wrong});
  }

  const MixtureWalk& walk() const { return walk_; }

 private:
  MixtureWalk walk_;
  const DataBatch batch_;
};

std::string place(const DataProblem& problem) {
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
  const DataBatch batch = batch_of(trace);
  const std::vector<std::int64_t> all = before == nullptr ? steps : before->step_numbers();
  const bool midway = all.empty() || all.front() > 0;
  MixtureJudge judge(*earlier, batch, midway);
  std::optional<DataProblem> problem;
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
std::string padding_hint(const DataBatch& batch, const DataProblem& problem) {
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
  const DataBatch batch = batch_of(trace);
  const std::int64_t size = integer_fact(trace, "/data/size").value_or(0);
  DataWalks walks(DataWalk(size, batch,
                           before != nullptr ? std::optional<std::int64_t>(0)
                                             : taken_before(batch, size, steps.front())));
  std::optional<DataProblem> problem;
  if (before != nullptr) {
    for (const std::int64_t step : before->step_numbers()) {
      if (!problem && step < steps.front()) problem = walks.step(*before, step);
    }
  }
  for (const std::int64_t step : steps) {
    if (!problem) problem = walks.step(trace, step);
  }
  if (problem) return fails(verdict, place(*problem) + padding_hint(batch, *problem));
  const DataWalk& walk = walks.walk();
  if (!walk.open().empty()) return undecided(verdict, walk.open());
  verdict.notes.push_back(fmt::format("{} samples a step; {} whole epochs, {} samples of the next",
                                      batch.size, walk.epochs(), walk.seen()));
  return passes(verdict);
}

}  // namespace shardproof

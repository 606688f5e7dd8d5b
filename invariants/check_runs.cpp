// repeat, layout, resume: two runs are the same run.
#include <algorithm>

#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

Verdict judge(Verdict verdict, const Trace& expected, const Trace& found, std::int64_t from,
              std::int64_t to) {
  const RunComparison runs = compare_runs(expected, found, from, to);
  if (runs.first)
    return fails(
        verdict,
        fmt::format("the runs differ first in {} at step {}", runs.first->phase, runs.first->step),
        runs.first);
  verdict.notes.push_back(
      fmt::format("{} steps and {} tensor digests or elements equal", runs.steps, runs.tensors));
  if (!runs.incomparable.empty()) return undecided(verdict, runs.incomparable.front());
  if (runs.tensors == 0) return undecided(verdict, "no tensor was traced");
  return passes(verdict);
}

Verdict judge_whole(Verdict verdict, const Trace& expected, const Trace& found) {
  const std::string why = comparison_obstacle(expected, found);
  if (!why.empty()) return undecided(verdict, why);
  const std::vector<std::int64_t> left = expected.step_numbers(), right = found.step_numbers();
  return judge(verdict, expected, found, std::min(left.front(), right.front()),
               std::max(left.back(), right.back()));
}

}  // namespace

Verdict check_repeat(const Trace& first, const Trace& second) {
  return judge_whole(open_verdict("repeat",
                                  "the same run again gives the same bits: samples, loss, "
                                  "gradients, norm, parameters, moments, every step"),
                     first, second);
}

Verdict check_layout(const Trace& reference, const Trace& trace) {
  return judge_whole(open_verdict("layout",
                                  "loss, gradients, norm, learning rate, parameters and "
                                  "moments of every step equal the reference layout's, "
                                  "bit for bit"),
                     reference, trace);
}

Verdict check_resume(const Trace& uncut, const Trace& resumed, std::int64_t from) {
  Verdict verdict = open_verdict(
      "resume", fmt::format("fresh ranks resumed at step {} walk to the end with the same samples, "
                            "loss, norm, learning rate, parameters and moments as the uncut run",
                            from));
  const std::string why = comparison_obstacle(uncut, resumed);
  if (!why.empty()) return undecided(verdict, why);
  const std::vector<std::int64_t> steps = resumed.step_numbers();
  if (steps.front() != from) {
    return fails(verdict,
                 fmt::format("the resumed run begins at step {}, not {}", steps.front(), from));
  }
  const std::int64_t last = std::max(uncut.step_numbers().back(), steps.back());
  if (last - from + 1 < 2) return undecided(verdict, "fewer than 2 steps after the resume");
  return judge(verdict, uncut, resumed, from, last);
}

}  // namespace shardproof

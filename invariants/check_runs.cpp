// repeat, layout, resume: two runs are the same run.
#include <fmt/ranges.h>

#include <algorithm>

#include "invariants/compare_errors.h"
#include "invariants/compare_native.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

Verdict judge(Verdict verdict, const Trace& expected, const Trace& found, std::int64_t from,
              std::int64_t to) {
  const RunComparison runs = compare_runs(expected, found, from, to);
  if (const std::string import = imported_text(expected, found); !import.empty()) {
    verdict.notes.push_back(import);
  }
  if (runs.first)
    return fails(
        verdict,
        fmt::format("the runs differ first in {} at step {}", runs.first->phase, runs.first->step),
        runs.first);
  verdict.notes.push_back(
      fmt::format("{} steps and {} tensor digests or elements equal", runs.steps, runs.tensors));
  if (const std::string import = imported_text(expected, found); !import.empty()) {
    return undecided(verdict, fmt::format("{}; {}", import, fmt::join(runs.incomparable, "; ")));
  }
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

std::string said(const Trace& trace, const char* fact) {
  return text_fact(trace, fact).value_or("?");
}

// "native on dp2 (threads)"
std::string sums_text(const Trace& trace) {
  return fmt::format("{} on {} ({})", said(trace, "/config/numerics/reduction"),
                     said(trace, "/config/run/layout"), said(trace, "/config/run/backend"));
}

Verdict judge_native(const Trace& expected, const Trace& found) {
  const double bound = native_pair().bound;
  Verdict verdict = open_verdict(
      "layout",
      fmt::format("sums of native reduction: from the same weights, each gradient and the norm are "
                  "within {:g} u x |all gradients| of the reference's, u = 2^-24, and the loss "
                  "within 64 u; samples and learning rate of every step are equal",
                  bound));
  const std::string why = comparison_obstacle(expected, found);
  if (!why.empty()) return undecided(verdict, why);
  const std::vector<std::int64_t> left = expected.step_numbers(), right = found.step_numbers();
  const NativeComparison runs = compare_native(
      expected, found, std::min(left.front(), right.front()), std::max(left.back(), right.back()));
  verdict.notes.push_back(
      fmt::format("{} against {}: bits depend on the layout, so judged by the "
                  "declared tolerance: {}",
                  sums_text(expected), sums_text(found), native_pair().reason));
  if (runs.first) {
    return fails(
        verdict,
        fmt::format("{}{} of step {} is beyond rounding", runs.first->phase,
                    runs.first->tensor.empty() ? "" : " " + runs.first->tensor, runs.first->step),
        runs.first);
  }
  verdict.notes.push_back(fmt::format(
      "{} gradients over {} of {} steps compared, the worst ({}) at {:.2g} of the bound; later "
      "steps start from other weights, and only their samples and learning rate are equal",
      runs.tensors, runs.judged, runs.steps, runs.worst.print(), runs.ratio));
  if (!runs.incomparable.empty()) return undecided(verdict, runs.incomparable);
  if (runs.tensors == 0) return undecided(verdict, "no gradient was compared");
  return passes(verdict);
}

}  // namespace

Verdict check_repeat(const Trace& first, const Trace& second) {
  return judge_whole(open_verdict("repeat",
                                  "the same run again gives the same bits: samples, loss, "
                                  "gradients, norm, parameters, moments, every step"),
                     first, second);
}

Verdict check_layout(const Trace& reference, const Trace& trace) {
  const bool native = is_native(reference) || is_native(trace);
  if (native && !same_native_sums(reference, trace)) return judge_native(reference, trace);
  Verdict verdict = judge_whole(
      open_verdict("layout",
                   "loss, gradients, norm, learning rate, parameters and moments of every step "
                   "equal the reference layout's, bit for bit"),
      reference, trace);
  if (native) {
    verdict.notes.insert(verdict.notes.begin(),
                         "native reduction on one layout, backend and numerics: bit for bit");
  }
  return verdict;
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

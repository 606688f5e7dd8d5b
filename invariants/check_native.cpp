// native layout: gradients from the same weights, judged by the declared error model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>

#include "invariants/compare_errors.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr std::size_t benign_runs = 3;  // without a float64 side

std::optional<Difference> sample_difference(const Trace& truth, const Trace& trace,
                                            std::int64_t step) {
  const std::vector<std::int64_t> want = world_samples(truth, step),
                                  have = world_samples(trace, step);
  if (want == have) return std::nullopt;
  Difference out{step, "samples", "", -1, -1, -1, "", ""};
  out.left = fmt::format("[{}]", fmt::join(want, ","));
  out.right = fmt::format("[{}]", fmt::join(have, ","));
  return out;
}

std::optional<Difference> loss_difference(const Trace& truth, const Trace& trace,
                                          std::int64_t step) {
  const StepRecord* want = truth.ranks.front().find_step(step);
  for (const RankTrace& rank : trace.ranks) {
    const StepRecord* have = rank.find_step(step);
    Difference out{step, "loss", "", -1, rank.rank, -1, "", "missing"};
    if (want == nullptr || have == nullptr) return out;
    const double bound = native_loss().bound * std::abs(want->loss);
    if (std::abs(have->loss - want->loss) <= bound) continue;  // false for a NaN
    out.left = fmt::format("{:.12g} within {:.2g}", want->loss, bound);
    out.right = fmt::format("{:.12g}", have->loss);
    return out;
  }
  return std::nullopt;
}

std::string address_text(const Difference& at) {
  return fmt::format("step {}, {}, piece {}, element {}", at.step, at.tensor, at.piece, at.element);
}

// What was judged, over all steps.
struct Tally {
  std::int64_t steps = 0;
  std::int64_t tensors = 0;
  double ratio = 0;
  Difference worst;

  void add(const ErrorComparison& errors) {
    ++steps;
    tensors += errors.tensors;
    if (errors.ratio < ratio && !worst.tensor.empty()) return;
    ratio = errors.ratio;
    worst = errors.worst;
  }
};

// A step's samples, weights and loss: what must hold before gradients can be compared.
Verdict judge_premises(Verdict verdict, const Trace& truth, const Trace& trace, std::int64_t step) {
  if (const auto samples = sample_difference(truth, trace, step)) {
    return fails(verdict, fmt::format("step {} has other samples", step), samples);
  }
  const TensorComparison weights = compare_tensors(truth, trace, step - 1, "param");
  if (weights.first) {
    return fails(verdict, fmt::format("the weights before step {} are not the same", step),
                 weights.first);
  }
  if (!weights.incomparable.empty()) return undecided(verdict, weights.incomparable);
  if (weights.compared == 0) {
    return undecided(verdict, fmt::format("the weights before step {} were not captured", step));
  }
  if (const auto loss = loss_difference(truth, trace, step)) {
    return fails(verdict, fmt::format("the loss of step {} is beyond rounding", step), loss);
  }
  return passes(verdict);
}

bool is_float64(const Trace& truth, std::int64_t step) {
  const BytesMap bytes = bytes_at(truth, step, "grad");
  return !bytes.empty() && bytes.begin()->second.front().entry.dtype == Dtype::f64;
}

std::string obstacle(const Trace& truth, const std::vector<const Trace*>& references,
                     const Trace& trace) {
  std::string why = comparison_obstacle(truth, trace);
  for (const Trace* each : references) {
    if (why.empty()) why = comparison_obstacle(*each, trace);
  }
  if (!why.empty()) return why;
  const std::size_t needed = is_float64(truth, truth.step_numbers().front()) ? 1 : benign_runs;
  if (references.size() >= needed) return "";
  return needed == 1 ? "there is no reference to say how far fp32 is from float64"
                     : fmt::format("no float64 side, and {} of {} benign runs", references.size(),
                                   benign_runs);
}

}  // namespace

Verdict check_native_layout(const Trace& truth, const std::vector<const Trace*>& references,
                            const Trace& trace) {
  const Policy& policy = native_gradients();
  Verdict verdict = open_verdict(
      native_layout_check,
      fmt::format("from the same weights, each gradient's error against float64 on one rank is at "
                  "most {:g} x that of float32 on one rank (or u |gradient|, u = 2^-24); samples "
                  "are the same, the loss is within 64 u",
                  policy.bound));
  const std::string why = obstacle(truth, references, trace);
  if (!why.empty()) return undecided(verdict, why);
  Tally tally;
  for (const std::int64_t step : truth.step_numbers()) {
    const Verdict premises = judge_premises(verdict, truth, trace, step);
    if (premises.outcome != Outcome::pass) return premises;
    const ErrorComparison errors = compare_errors(truth, references, trace, step, "grad");
    if (!errors.incomparable.empty()) return undecided(verdict, errors.incomparable);
    if (errors.ratio > policy.bound) {
      return fails(verdict,
                   fmt::format("{} of step {} is {:.3g} x as far from float64 as float32 is on one "
                               "rank; at most {:g} is rounding",
                               errors.worst.tensor, step, errors.ratio, policy.bound),
                   errors.worst);
    }
    tally.add(errors);
  }
  if (tally.tensors == 0) return undecided(verdict, "no gradient was captured");
  verdict.notes.push_back(fmt::format("worst ratio {:.2f} of at most {:g}: {}", tally.ratio,
                                      policy.bound, address_text(tally.worst)));
  verdict.notes.push_back(
      fmt::format("{} tensors over {} steps compared", tally.tensors, tally.steps));
  if (!is_float64(truth, truth.step_numbers().front())) {
    verdict.notes.push_back(fmt::format(
        "no float64 side: the error allowed is the spread of {} benign runs", references.size()));
  }
  return passes(verdict);
}

}  // namespace shardproof

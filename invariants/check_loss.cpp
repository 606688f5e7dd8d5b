// loss falls, overfit: the run learns. A run with learning rate 0 must fail all forms.
#include <cmath>

#include "invariants/compare.h"
#include "invariants/ruling.h"
#include "invariants/trace_checks.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

// The losses of the first rank in step order (that ranks agree is another check's business).
std::vector<double> losses(const Trace& trace) {
  std::vector<double> out;
  if (trace.ranks.empty()) return out;
  for (const StepRecord& step : trace.ranks.front().steps) out.push_back(step.loss);
  return out;
}

// Why nothing can be said of the losses; empty when something can.
std::string lacking_loss(const Trace& trace) {
  if (trace.ranks.empty()) return "";
  for (const StepRecord& step : trace.ranks.front().steps) {
    if (is_missing(step, "loss")) return fmt::format("no loss at step {}", step.step);
  }
  return "";
}

double mean(const std::vector<double>& values, std::size_t lo, std::size_t hi) {
  double sum = 0;
  for (std::size_t i = lo; i < hi; ++i) sum += values[i];
  return sum / static_cast<double>(hi - lo);
}

}  // namespace

Verdict check_loss_falls(const Trace& trace, double slack, double ratio) {
  Verdict verdict = open_verdict(
      "loss falls",
      fmt::format("loss[i+1] <= loss[i] + {} and the last loss <= {} x the first", slack, ratio));
  if (const std::string why = lacking_loss(trace); !why.empty()) return undecided(verdict, why);
  const std::vector<double> loss = losses(trace);
  if (loss.size() < 2) return undecided(verdict, "fewer than 2 steps were traced");
  for (std::size_t i = 0; i + 1 < loss.size(); ++i) {
    if (loss[i + 1] <= loss[i] + slack) continue;  // false for a NaN
    return fails(verdict, fmt::format("loss rises from {:.6f} to {:.6f} at step {}", loss[i],
                                      loss[i + 1], trace.ranks.front().steps[i + 1].step));
  }
  const std::string ends =
      fmt::format("the loss went from {:.6f} to {:.6f}", loss.front(), loss.back());
  if (!(loss.back() <= ratio * loss.front())) return fails(verdict, ends);
  verdict.notes.push_back(ends);
  return passes(verdict);
}

Verdict check_loss_falls_by_quarters(const Trace& trace, double ratio) {
  Verdict verdict = open_verdict(
      "loss falls",
      fmt::format("the mean loss of the last quarter of the steps is at most {} x that "
                  "of the first quarter",
                  ratio));
  if (const std::string why = lacking_loss(trace); !why.empty()) return undecided(verdict, why);
  const std::vector<double> loss = losses(trace);
  const std::size_t quarter = loss.size() / 4;
  if (quarter == 0) return undecided(verdict, "fewer than 4 steps were traced");
  const double first = mean(loss, 0, quarter),
               last = mean(loss, loss.size() - quarter, loss.size());
  const std::string ends = fmt::format("the mean loss went from {:.6f} to {:.6f}", first, last);
  if (!(last <= ratio * first)) return fails(verdict, ends);
  verdict.notes.push_back(ends);
  return passes(verdict);
}

Verdict check_overfit(const Trace& trace, int vocabulary, double share) {
  const double bound = share * std::log(vocabulary);
  Verdict verdict = open_verdict(
      "overfit", fmt::format("every step trains on the same samples, and the last loss is at most "
                             "{:.4g} x ln {} = {:.4f}",
                             share, vocabulary, bound));
  if (const std::string why = lacking_loss(trace); !why.empty()) return undecided(verdict, why);
  const std::vector<double> loss = losses(trace);
  if (loss.size() < 2) return undecided(verdict, "fewer than 2 steps were traced");
  const std::vector<std::int64_t> steps = trace.step_numbers();
  const std::vector<std::int64_t> batch = world_samples(trace, steps.front());
  if (batch.empty()) return undecided(verdict, "the trace names no samples");
  for (const std::int64_t step : steps) {
    if (world_samples(trace, step) == batch) continue;
    return fails(verdict,
                 fmt::format("step {} trains on other samples than step {}", step, steps.front()));
  }
  const std::string ends = fmt::format(
      "the loss of {} samples went from {:.4f} to {:.4f} in {} "
      "steps",
      batch.size(), loss.front(), loss.back(), loss.size());
  if (!(loss.back() <= bound)) return fails(verdict, ends);
  verdict.notes.push_back(ends);
  return passes(verdict);
}

}  // namespace shardproof

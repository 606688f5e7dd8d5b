// compare: the first difference of two steps' scalars and of two whole runs, bit for bit. NaNs are
// canonicalised before comparing. Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "invariants/compare_tensors.h"
#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

// The bits of a double as hex, every NaN the same.
std::string scalar_bits(double value);

// First difference in the scalars of one step record against another (loss, grad_norm, lr, skipped;
// the union of sample ids over ranks is compared by compare_runs). What either says to lack is not
// compared (trace/missing.h): uncompared() names it.
std::optional<Difference> compare_scalars(const StepRecord& expected, const StepRecord& found);

// What the sides have no common word on: "grad_norm, samples"; empty when all was compared.
std::string uncompared(const StepRecord& expected, const StepRecord& found);

// Two runs, step by step in the order of cause: samples, loss, gradients, grad_norm, lr,
// parameters, moments; for the steps [from, to], after the parameters at step from - 1 where both
// have them. Every rank of `found` is judged. Stops at the first difference.
struct RunComparison {
  std::int64_t steps = 0;    // whole steps that were compared
  std::int64_t tensors = 0;  // digests or elements compared
  std::optional<Difference> first;
  std::vector<std::string> incomparable;
};
RunComparison compare_runs(const Trace& expected, const Trace& found, std::int64_t from,
                           std::int64_t to);

// The sample ids of a step over all ranks, ascending, each once.
std::vector<std::int64_t> world_samples(const Trace& trace, std::int64_t step);

// SHA-256 over all step records (scalars and samples of the world) and state digests, in step
// order: equal for two runs of one Case on any layout.
std::string trajectory_digest(const Trace& trace);

}  // namespace shardproof

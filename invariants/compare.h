// compare: equality policies and the first difference. Bits are the default; every tolerance is a
// declared Policy with its reason. NaNs are canonicalised before comparing. Torch-free.
// Thread rule: pure functions of their arguments.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

struct Policy {
  enum class Kind { bitwise, relative_norm };
  Kind kind = Kind::bitwise;
  double bound = 0;    // relative_norm: |a - b| <= bound x |a| (2-norms of the tensor)
  std::string reason;  // why bits cannot be demanded; empty for bitwise
};

// The bits of a double as hex, every NaN the same.
std::string scalar_bits(double value);

// First difference in the scalars of one step record against another (loss, grad_norm, lr, skipped;
// the union of sample ids over ranks is compared by compare_runs).
std::optional<Difference> compare_scalars(const StepRecord& expected, const StepRecord& found);

// All tensors of both traces at (step, what): by digest where the cuts are the same, by bytes where
// both captured files (to name the element, or because the cuts differ, or for a tolerance);
// elements owned by any rank on either side are compared on the global grid. A tensor or block that
// only one side has is a Difference. A side that holds nothing at all, or digests of other cuts
// without bytes, is `incomparable`; nothing on both sides is `compared` 0.
struct TensorComparison {
  std::int64_t compared = 0;  // digests or elements compared
  std::optional<Difference> first;
  std::string incomparable;  // why nothing can be said; empty otherwise
};
TensorComparison compare_tensors(const Trace& expected, const Trace& found, std::int64_t step,
                                 const std::string& what, const Policy& policy = {});

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

// compare_native: two native runs of one Case on two layouts, of which nothing is known but their
// traces: neither is the truth, and there is no float64 side. The declared tolerance stands where
// compare_errors.h cannot: it is as wide as the rounding of both, relative to the whole gradient.
// Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "invariants/compare_tensors.h"

namespace shardproof {

// |a - b| <= bound x u x |all gradients of the step|, 2-norms, per tensor; u as in
// compare_errors.h.
const Policy& native_pair();

// For steps from the first on, as long as both sides have the same weights before it: samples,
// steps done, learning rate and skipped equal; loss within native_loss(); gradients and grad_norm
// within native_pair(). Of later steps, which start from other weights, samples, steps done and the
// learning rate alone. Where bytes of a gradient are missing its traced norm must agree and the
// comparison is `incomparable`.
struct NativeComparison {
  std::int64_t judged = 0;   // steps from the same weights
  std::int64_t steps = 0;    // all
  std::int64_t tensors = 0;  // gradients compared by bytes
  double ratio = 0;          // the worst, in units of the bound: at most 1 is rounding
  Difference worst;
  std::optional<Difference> first;  // the first that is no rounding
  std::string incomparable;         // what is open; empty otherwise
};
NativeComparison compare_native(const Trace& expected, const Trace& found, std::int64_t from,
                                std::int64_t to);

}  // namespace shardproof

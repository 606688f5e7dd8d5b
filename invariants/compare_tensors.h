// compare_tensors: equality policies, and the first difference of the tensors of two traces at one
// step. Bits are the default; every tolerance is a declared Policy with its reason. NaNs are
// canonicalised before comparing. Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

struct Policy {
  // error_model needs a third side, the truth: compare_errors.h.
  enum class Kind { bitwise, relative_norm, error_model };
  Kind kind = Kind::bitwise;
  // relative_norm: |a - b| <= bound x |a| (2-norms of the tensor)
  // error_model:   |found - truth| <= bound x max(|reference - truth|, u x |truth|)
  double bound = 0;
  std::string reason;  // why bits cannot be demanded; empty for bitwise
};

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

}  // namespace shardproof

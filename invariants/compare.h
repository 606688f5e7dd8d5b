// compare: equality policies and the first difference. Bits are the default; every tolerance is a
// declared Policy with its reason. NaNs are canonicalised before comparing. Torch-free.
#pragma once

#include <optional>
#include <string>

#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

struct Policy {
  enum class Kind { bitwise, relative_norm };
  Kind kind = Kind::bitwise;
  double bound = 0;     // relative_norm: |a - b| <= bound x |a| (2-norms of the tensor)
  std::string reason;   // why bits cannot be demanded; empty for bitwise
};

// First difference in the scalars of one step record against another (loss, grad_norm, lr, and the
// union of sample ids over ranks are compared by the callers that need them).
std::optional<Difference> compare_scalars(const StepRecord& expected, const StepRecord& found);

// All tensors of both traces at (step, what), by digest where both have block digests, by bytes
// where both captured files; elements owned by any rank on either side are compared on the global
// grid of blocks. Missing on one side is a Difference; nothing on both sides is `compared` 0.
struct TensorComparison {
  std::int64_t compared = 0;  // blocks or elements compared
  std::optional<Difference> first;
};
TensorComparison compare_tensors(const Trace& expected, const Trace& found, std::int64_t step,
                                 const std::string& what, const Policy& policy = {});

// SHA-256 over all step records (scalars and samples of the world) and state digests, in step order:
// equal for two runs of one Case on any layout.
std::string trajectory_digest(const Trace& trace);

}  // namespace shardproof

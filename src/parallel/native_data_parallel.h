// native_data_parallel: plain data parallelism as fast as the backend allows: gradients in buckets,
// each all-reduced by the backend as soon as the last micro-batch's backward has made it ready, on
// a communication thread, while the rest of that backward goes on. Nothing travels for the other
// micro-batches (no_sync accumulation).
// Sums, not means: the loss of every rank is its sum over valid tokens times 1 / (valid tokens of
// all ranks), so gradients are added over ranks and divided by nothing. (With averaging, a rank
// would have to backpropagate R times that.) The backend's order of addition depends on the layout:
// judged by the error policy of invariants/compare, not by bits; one layout run twice gives the
// same bits. A gradient that never came is an Error naming the parameters, before anything is
// updated.
#pragma once

#include <functional>
#include <memory>

#include "mesh/mesh.h"
#include "parallel/plan.h"
#include "parallel/plan_options.h"

namespace shardproof {

struct NativeOptions {
  GptShape shape;
  int micro_batches = 4;  // M
  std::uint64_t seed = 0;
  std::int64_t bucket_bytes = std::int64_t{4} << 20;
  bool overlap = true;     // off: buckets travel one after the other when the backward has ended
  OffloadOptions offload;  // of the optimizer state alone
  // Tests overwrite a bucket with values whose sums are exact in any order.
  std::function<void(std::span<float> bucket)> before_reduce;
};

// Precondition: dp is the only axis, and ZeRO stage 0.
std::unique_ptr<Plan> make_native_data_parallel(Mesh& mesh, const NativeOptions& options);

}  // namespace shardproof

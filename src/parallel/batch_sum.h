// batch_sum: the sum of a unit's gradient over micro-batches and data ranks, left in shares: of the
// F ranks of a shard group each ends with its share of the sum over all M micro-batches.
// Canonical, reduced once a step: whole micro-batches meet in tree(M) as far as this rank runs
// them, and subtrees travel when the step ends. Canonical, reduced every micro-batch (ZeRO 2 and
// 3): shares of leaves travel when a micro-batch ends, and 1 + log2(m) shares stay. Over the dp / F
// shard groups the subtrees of each group's micro-batches travel last.
// Native: additions in the order of the micro-batches, and the backend's own sum over ranks.
// Collective: add() where reduced every micro-batch, reduce(); all data ranks make the same calls.
// Thread rule: one rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "parallel/plan_groups.h"

namespace shardproof {

class BatchSum {
 public:
  virtual ~BatchSum() = default;
  // A tensor for the gradient of the next micro-batch, undefined where none is kept for it.
  virtual at::Tensor spare() = 0;
  // `sum`: flat fp32, this rank's context share of the unit's gradient; given up.
  virtual void add(int micro_batch, at::Tensor sum) = 0;
  // This rank's share of the sum over everything; valid until clear().
  virtual float* reduce() = 0;
  virtual void clear() = 0;
  virtual std::int64_t live_bytes() const = 0;              // of gradients and partial sums
  virtual std::int64_t staging_bytes() const { return 0; }  // kept for what others send
};

struct BatchSumOptions {
  int micro_batches = 0;            // M
  std::vector<std::size_t> shares;  // of the F ranks of a shard group; together a context share
  bool every_micro_batch = false;
  bool native = false;
};
// `groups` must outlive the result.
std::unique_ptr<BatchSum> make_batch_sum(PlanGroups& groups, BatchSumOptions options);

}  // namespace shardproof

// native_batch_sum: see batch_sum.h. Gradients are added in the order in which micro-batches end,
// and the backend adds over ranks, in an order of its own: the bits depend on the layout.
#pragma once

#include "parallel/batch_sum.h"

namespace shardproof {

std::unique_ptr<BatchSum> make_native_batch_sum(PlanGroups& groups, BatchSumOptions options);

}  // namespace shardproof

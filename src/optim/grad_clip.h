// grad_clip: clipping by global norm. The squared norm is fp64 inside a 1,024-element block in
// element order, then an exact sum over blocks, so it is the same on every layout. One formula
// everywhere: factor = min(1, max_norm / (norm + 1e-6)). Torch-free.
#pragma once

#include "base/exact_sum.h"
#include "base/piece.h"

namespace shardproof {

// Adds the squared norms of the blocks of `table` that lie in `range` (block-aligned) to `sum`.
// `values` points to the first element of the range.
void add_squared_norms(const PieceTable& table, ElementRange range, const float* values,
                       ExactSum& sum);

double clip_factor(double norm, double max_norm);  // 1 when max_norm is 0 (clipping off)

}  // namespace shardproof

// local_reduce: combines equally long arrays element by element, in the order they are given:
// ((a0 op a1) op a2) ... 16-bit floats are combined in fp32 and rounded once at the end. Integer
// sums wrap. max and min give NaN when any input is NaN. `out` may be one of the inputs.
// Thread rule: pure.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "comm/communicator.h"

namespace shardproof {

// Precondition: at least one input; bit_or only on integers (SP_CHECK).
void local_reduce(std::span<const void* const> inputs, void* out, std::size_t count, Dtype dtype,
                  ReduceOp op);

}  // namespace shardproof

// flat: one-dimensional fp32 tensors that are charged to a use (base/memory_use.h), and the shares
// of one that the ranks of a group hold end to end. Thread rule: values.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/memory_use.h"
#include "base/piece.h"

namespace shardproof {

at::Tensor flat_zeros(std::int64_t elements, MemoryUse use);
at::Tensor flat_empty(std::int64_t elements, MemoryUse use);  // values undefined

using Shares = std::vector<std::size_t>;  // elements, by rank of the group

std::int64_t total(const Shares& shares);
ElementRange share_range(const Shares& shares, int rank);

}  // namespace shardproof

// flat: allocation under a memory scope.
#include "parallel/flat.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <numeric>

namespace shardproof {

at::Tensor flat_zeros(std::int64_t elements, MemoryUse use) {
  const MemoryScope scope(use);
  return at::zeros({elements}, at::kFloat);
}

at::Tensor flat_empty(std::int64_t elements, MemoryUse use) {
  const MemoryScope scope(use);
  return at::empty({elements}, at::kFloat);
}

std::int64_t total(const Shares& shares) {
  return static_cast<std::int64_t>(std::accumulate(shares.begin(), shares.end(), std::size_t{0}));
}

ElementRange share_range(const Shares& shares, int rank) {
  const auto lo = total({shares.begin(), shares.begin() + rank});
  return {lo, lo + static_cast<std::int64_t>(shares.at(static_cast<std::size_t>(rank)))};
}

}  // namespace shardproof

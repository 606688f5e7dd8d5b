// Squared norms by block, and the clip factor.
#include "optim/grad_clip.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace shardproof {
namespace {

// A block's sum is one chain of dependent additions; several blocks side by side fill the pipeline
// and change no bit.
constexpr std::size_t chains = 8;

double squared_norm(const float* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = values[i];
    sum += value * value;
  }
  return sum;
}

// `chains` full blocks, one after the other in memory.
std::array<double, chains> squared_norms(const float* values) {
  std::array<double, chains> sums{};
  for (std::int64_t i = 0; i < block_elements; ++i) {
    for (std::size_t c = 0; c < chains; ++c) {
      const double value = values[static_cast<std::int64_t>(c) * block_elements + i];
      sums[c] += value * value;
    }
  }
  return sums;
}

}  // namespace

void add_squared_norms(const PieceTable& table, ElementRange range, const float* values,
                       ExactSum& sum) {
  const std::vector<Block>& blocks = table.blocks();
  auto first =
      std::lower_bound(blocks.begin(), blocks.end(), range.lo,
                       [](const Block& block, std::int64_t lo) { return block.range.lo < lo; });
  auto last =
      std::lower_bound(first, blocks.end(), range.hi,
                       [](const Block& block, std::int64_t hi) { return block.range.lo < hi; });
  if (first == last) {
    SP_CHECK_EQ(range.size(), 0);
    return;
  }
  SP_CHECK_EQ(first->range.lo, range.lo);  // block-aligned at both ends
  SP_CHECK_EQ((last - 1)->range.hi, range.hi);
  while (first != last) {
    const float* block = values + (first->range.lo - range.lo);
    const auto together = std::min<std::ptrdiff_t>(last - first, chains);
    const bool full = together == chains && std::all_of(first, first + chains, [](const Block& b) {
                        return b.range.size() == block_elements;
                      });
    if (full) {
      for (const double norm : squared_norms(block)) sum.add(norm);
      first += chains;
    } else {
      sum.add(squared_norm(block, first->range.size()));
      ++first;
    }
  }
}

double clip_factor(double norm, double max_norm) {
  if (max_norm == 0) return 1;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace shardproof

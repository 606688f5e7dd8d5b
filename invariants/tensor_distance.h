// tensor_distance: how far what ranks hold of a tensor is from another side's, in double, as
// 2-norms, in a stream. Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "invariants/tensor_grid.h"

namespace shardproof {

// Unit roundoff as the public format declares it; 0 for a dtype without a declared policy.
double roundoff(Dtype dtype);

// Of an element that several ranks hold, the worst copy counts. A NaN is infinitely far.
struct TensorDistance {
  double norm = 0;
  std::int64_t farthest = -1;  // global element; -1: none is off
  double expected = 0;         // the value there
  double found = 0;
  std::string expected_bits;  // its pattern, as element_hex
  std::string found_bits;
  int rank = -1;
  std::string problem;  // why there is no distance: another shape, a hole; empty otherwise
};
// What each side is off, and the norm of `truth`, all in one reading. Of `truth` the first holder
// of an element counts; Error corrupt where it has a hole.
struct Distances {
  double norm = 0;
  std::vector<TensorDistance> sides;
};
Distances distances_from(const std::vector<HeldBytes>& truth,
                         std::span<const std::vector<HeldBytes>* const> sides);
double norm_of(const std::vector<HeldBytes>& truth);

// Puts the farthest element into an address: piece, rank, element, index and ranks. `left` and
// `right` become the values with their bits.
void tell_farthest(Difference& address, const TensorDistance& distance,
                   const std::vector<HeldBytes>& truth, const std::vector<HeldBytes>& found);

}  // namespace shardproof

// tensor_distance: how far what ranks hold of a tensor is from another side's whole tensor, in
// double, as 2-norms. Torch-free. Thread rule: pure functions of their arguments.
#pragma once

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
  double found = 0;            // the value there
  int rank = -1;
  std::string problem;  // why there is no distance: another shape, a hole; empty otherwise
};
// Precondition: `whole` has no holes (check_cover's business).
TensorDistance distance_from(const std::vector<HeldBytes>& entries, const GlobalTensor& whole);

double norm_of(const GlobalTensor& tensor);

}  // namespace shardproof

// compare_elements: one tensor of two sides, element by element on the global grid, in a stream.
// Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <vector>

#include "invariants/compare_tensors.h"
#include "invariants/tensor_grid.h"

namespace shardproof {

// Says of a difference at a global element where it is and how far apart: index, the ranks that
// hold it on each side, and by how many roundings of its dtype.
void tell_element(Difference& address, const std::vector<HeldBytes>& expected,
                  const std::vector<HeldBytes>& found, std::int64_t global_index);

// Each entry of `found` against the same rank's own copy, where it holds the same place, else
// against the first holder. Counts into out.compared; out.first is the lowest global element that
// differs or that one side lacks.
void compare_elements(const std::vector<HeldBytes>& expected, const std::vector<HeldBytes>& found,
                      const Difference& address, TensorComparison& out);

// The first element of a side of which a rank holds other bits than a lower rank.
std::optional<Difference> find_unequal_copy(const std::vector<HeldBytes>& entries,
                                            const Difference& address);

}  // namespace shardproof

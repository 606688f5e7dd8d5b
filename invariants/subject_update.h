// subject_update: the update of one parameter (after - before) on several sides, as 2-norms, in a
// stream. Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "invariants/tensor_grid.h"

namespace shardproof {

struct UpdateSide {
  const std::vector<HeldBytes>& before;
  const std::vector<HeldBytes>& after;
};

// Of an element that several ranks hold, the first counts.
struct UpdateDistances {
  double norm = 0;             // of the truth's update
  double param = 0;            // of its parameter
  std::vector<double> sides;   // |update - truth's update|
  std::int64_t farthest = -1;  // global element of the first side; -1: none is off
  double expected = 0;         // the updates there
  double found = 0;
  std::vector<std::string> problems;  // per side: why there is no update; the truth's is the last
};
UpdateDistances update_distances(const UpdateSide& truth, const std::vector<UpdateSide>& sides);

}  // namespace shardproof

// gather_cost: which units a rank gathers for the passes of a step under ZeRO 3, in order: from the
// schedule alone, apart from the code that gathers (parameter_flow.*), with which tests compare it.
// Of the uses of a step in a row, each needs its unit, the next ones of its chunk in its direction
// (as many as are prefetched), and the units that wait for their backward; a unit is gathered when
// it is needed at a use and was not at the one before.
// Torch-free. Pure.
#pragma once

#include <vector>

#include "parallel/plan_options.h"
#include "parallel/schedule.h"
#include "parallel/units.h"

namespace shardproof {

// Indices into `units`, which are all of the rank in the order of a forward pass.
std::vector<int> predicted_gathers(const std::vector<UnitSpec>& units, const Schedule& schedule,
                                   const FlowOptions& options);

}  // namespace shardproof

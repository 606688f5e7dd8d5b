// state_fault: a bit that flips, or a NaN that appears, in what a rank holds of the training state.
// Thread rule: the rank's thread, between phases.
#pragma once

#include <vector>

#include "faults/inject/fault_kind.h"
#include "parallel/plan.h"
#include "trace/event.h"

namespace shardproof {

// The kinds that can change something on entering this phase: gradients are there once reduced.
std::vector<FaultKind> state_kinds(Phase phase);
// Changes the middle element of the first run of what the kind names, or the key of the random
// numbers of `step`. Error bad_input when this rank holds no such element.
void change_state(Plan& plan, FaultKind kind, int bit, std::int64_t step);

}  // namespace shardproof

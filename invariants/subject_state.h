// subject_state: whether what a program captured is a state that was really trained: finite, moved
// by the steps, and of steps that its ranks recorded. Torch-free. Thread rule: pure.
#pragma once

#include <string>
#include <vector>

#include "invariants/ruling.h"
#include "trace/reader.h"

namespace shardproof {

// The run events agree on the world, each rank's end is the step behind its last, and a tensor file
// has the record of its step (parameters and moments of the start have none).
Ruling judge_records(const Trace& trace);

// Captured parameters and moments are finite. A parameter that is not frozen moves when a step that
// is not skipped, with a learning rate above 0, had a gradient for it that is no noise. `notes`:
// what does not move and may be below the rounding of its dtype.
Ruling judge_state(const Trace& trace, std::vector<std::string>& notes);

}  // namespace shardproof

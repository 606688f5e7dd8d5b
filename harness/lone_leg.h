// lone_leg: a leg that is no run: at each step it captures, the gradients that one rank without
// any plan takes (lone_step.h) from the very weights another leg had there. Its trace is that of
// one rank: step records, `grad` in F32 or F64, and the weights they were taken from as `param` of
// the step before. At step 0 these are the initial weights of the Case, not the other leg's.
// Thread rule: as lone_step.
#pragma once

#include <string>
#include <vector>

#include "harness/leg.h"
#include "harness/lone_step.h"

namespace shardproof {

// The weights of a trace before `step`, whole. Error corrupt when they were not captured.
Weights weights_before(const Trace& trace, std::int64_t step);

// One rank's trace of these steps; `weights` of each step beside it. The folder must exist.
struct LoneRecord {
  LoneStep step;
  Weights weights;
};
void write_lone_trace(const Config& config, const std::vector<LoneRecord>& records, bool float64,
                      const std::string& directory);

// Runs the leg in `directory` (created; must not exist). Precondition: leg.weights_of is not empty,
// and `trace` is that leg's.
LegResult run_lone_leg(const Leg& leg, const Trace& trace, const std::string& directory);

}  // namespace shardproof

// check_calls: the calls that every rank of a run counted in each step, and the bytes it sent,
// against those predicted from the run's Config (parallel/step_cost.h); bytes of offloaded
// parameters brought in against the gathers. Pure.
#pragma once

#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

// Verdict `calls`. Inconclusive where a trace does not say its Config, or no step.
Verdict check_calls(const Trace& trace);

}  // namespace shardproof

// pipeline: `shardproof bench pipeline`: the share of forward and backward that stage 0 of a
// two-stage pipeline waits, measured, beside the formula, for each schedule. Two thread ranks, so
// on two free cores; with fewer the ranks wait for each other's core as well.
// Stage 0 begins the step and ends it, so its time in forward and backward is the makespan. The
// formula takes a forward, the gradient of its input and that of its weights to cost the same, and
// transfers to cost nothing.
#pragma once

#include <vector>

#include "base/json.h"
#include "train/config.h"

namespace shardproof::bench {

struct PipelineBenchOptions {
  int steps = 12;      // timed, after the warm-up; medians count
  bool quick = false;  // a tiny model, few steps: to see that it runs
};

Json run_pipeline_bench(const PipelineBenchOptions& options);
void print_pipeline_bench(const Json& result);

}  // namespace shardproof::bench

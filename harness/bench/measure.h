// measure: what a run's metrics say about its steps, for the benches. Thread rule: one at a time.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "harness/world.h"

namespace shardproof::bench {

constexpr int warm_up_steps = 3;  // of every run measured here; not counted

double median(std::vector<double> values);  // precondition: not empty

struct StepTimes {
  double seconds = 0;  // the median step of the slowest rank
  Json parts;          // rank 0: median seconds by part ("forward", "communication", ...)
};

// Runs it, with metrics into a folder that is removed. Error corrupt when a rank wrote too little.
StepTimes measure(RunRequest request);

// Four rows a micro-batch, one of them a rank, no logical pieces, on MPI ranks: what a plain
// trainer does. `layout` decides the number of ranks.
Config plain_config(const std::string& layout, int ranks, int steps);
// 10.9 M parameters.
void make_large(Config& config);

}  // namespace shardproof::bench

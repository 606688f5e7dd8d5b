// step: `shardproof bench step`: tokens/s of a training step on MPI ranks (ZeRO-1, canonical order,
// trace off) as a ratio to PyTorch DDP on the same machine in the same run, rounds interleaved; and
// what the default Case's logical pieces cost beside it. Ratios are medians over rounds.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/config.h"

namespace shardproof::bench {

struct StepBench {
  std::string name;     // "tiny", "10.9M"
  Config config;        // of our run
  int steps = 60;       // timed, after the warm-up
  double required = 0;  // tokens/s ratio that is asked for
};

std::vector<StepBench> step_benches(int ranks);

struct StepBenchOptions {
  int ranks = 2;
  int rounds = 3;
  std::string python;  // an interpreter with torch; empty: search
  bool quick = false;  // tiny only, one round
};

// Error environment when no Python with torch is found.
Json run_step_bench(const StepBenchOptions& options);
void print_step_bench(const Json& result);
int step_bench_status(const Json& result);  // 0 when every ratio asked for was met, else 1

}  // namespace shardproof::bench

// step: `shardproof bench step`: tokens/s of a training step on MPI ranks (trace off) as a ratio to
// PyTorch on the same machine in the same run, rounds interleaved: ZeRO-1 in canonical order and
// native data parallelism against DDP, ZeRO-3 against FSDP2; and what the default Case's logical
// pieces cost beside it. Ratios are medians over rounds.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "train/config.h"

namespace shardproof::bench {

struct StepBench {
  std::string name;     // "tiny zero1"
  std::string peer;     // "ddp" | "fsdp"
  Config config;        // of our run
  double required = 0;  // tokens/s ratio that is asked for
};

std::vector<StepBench> step_benches(int ranks);

struct StepBenchOptions {
  int ranks = 2;
  int rounds = 3;
  std::string python;  // an interpreter with torch; empty: search
  bool quick = false;  // tiny models only, one round
};

// Error environment when no Python with torch is found.
Json run_step_bench(const StepBenchOptions& options);
void print_step_bench(const Json& result);
int step_bench_status(const Json& result);  // 0 when every ratio asked for was met, else 1

}  // namespace shardproof::bench

// guards: `shardproof bench guards`: what the guards (verified, watched, recorded) cost a step, on
// against off in turns; how many waits for others an agreement takes, and how long, for 2 to 64
// thread ranks; how long a hang lasts before it is named, on thread ranks that wait in a circle and
// on processes of which one is stopped.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct GuardBenchOptions {
  int rounds = 5;
  bool quick = false;  // the default Case only, few rounds
};

// {"steps":[{"model","backend","off_ms","on_ms","ratio","at_most"}..],
//  "agreements":[{"ranks","way","rounds","at_most","us"}..],
//  "hangs":[{"what","seconds","at_most"}..]}
Json run_guard_bench(const GuardBenchOptions& options);
void print_guard_bench(const Json& result);
int guard_bench_status(const Json& result);  // 0 when all that is asked for is met, else 1

}  // namespace shardproof::bench

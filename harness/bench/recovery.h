// recovery: `shardproof bench recovery`: how soon a rank process that gets SIGKILL, or SIGSTOP, is
// named on the screen, and how long it takes from the signal to the end of the next step, in parts
// (harness/recovery.h): by a restart without a back-off, and in place (harness/elastic_run.h). The
// default Case on four ranks, a checkpoint after each step. Medians of the rounds.
#pragma once

#include <string>

#include "base/json.h"

namespace shardproof::bench {

struct RecoveryBenchOptions {
  int rounds = 3;
  bool quick = false;   // one round
  std::string program;  // the command `shardproof`; empty: this executable is it
};

// {"verdicts":[{"what","seconds","at_most"}..],
//  "recoveries":[{"what","seconds","at_most","parts":[{"part","seconds"}..]}..]}; at_most null: not
// asked.
// Error mismatch when nothing was named, or nothing recovered.
Json run_recovery_bench(const RecoveryBenchOptions& options);
void print_recovery_bench(const Json& result);
int recovery_bench_status(const Json& result);  // 0 when all that is asked for is met, else 1

}  // namespace shardproof::bench

// faults: `shardproof bench faults`: how many fault scenarios run in a second on thread ranks: the
// smallest Case, its reference kept; each fires its fault, recovers and is compared to the end.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct FaultBenchOptions {
  bool quick = false;
};

// Error corrupt when a scenario does not end as it should.
Json run_fault_bench(const FaultBenchOptions& options);
void print_fault_bench(const Json& result);
int fault_bench_status(const Json& result);  // 0 when every ratio asked for was met, else 1

}  // namespace shardproof::bench

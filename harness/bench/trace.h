// trace: `shardproof bench trace`: the tensors of two layouts, one uncut and one cut over four
// ranks (by rows and by columns, in turns), read plainly, then compared bit for bit, by errors, and
// looked through for holes and unequal copies, each in a process of its own whose peak memory is
// told. Both layouts hold the given size, so a comparison reads twice as much, and so does the
// plain reading beside it.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct TraceBenchOptions {
  int megabytes = 2048;  // of each layout
  int rounds = 3;        // medians count
  bool quick = false;    // 64 MB, one round
};

// {"megabytes":..,"read_seconds":..,"rows":[{"what":"bits","seconds":..,"ratio":..,
//   "peak_megabytes":..,"asked_ratio":2,"asked_megabytes":300}]}. Error corrupt when a comparison
// of equal tensors does not find them equal.
Json run_trace_bench(const TraceBenchOptions& options);
void print_trace_bench(const Json& result);
int trace_bench_status(const Json& result);  // 1 when a figure asked for is not met

}  // namespace shardproof::bench

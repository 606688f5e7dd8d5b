// reduction: `shardproof bench reduction`: what canonical order costs over native, 10.9 M
// parameters on two MPI ranks, with only the pieces that the layout needs: dp2 (M = 2), tp2 (V =
// 2), pp2 (M = 4); the cost of the default Case's pieces (M4 V2 S2) beside it. Rounds are
// interleaved, ratios are medians.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct ReductionBenchOptions {
  int rounds = 3;
  bool quick = false;  // the tiny model, one round
};

// {"rows":[{"layout":"dp2","canonical_ms":..,"native_ms":..,"ratio":..,"at_most":1.25}]}
Json run_reduction_bench(const ReductionBenchOptions& options);
void print_reduction_bench(const Json& result);
int reduction_bench_status(const Json& result);  // 0 when every limit was kept, else 1

}  // namespace shardproof::bench

// overlap: `shardproof bench overlap`: how much of native data parallelism's communication the
// backward hides. Communication is slowed (a delay that sleeps, so that both cores stay free for
// computing) until all of it costs as much as the backward; exposed communication with overlap on
// is then compared with off. The figure without slowing is printed beside it. Two thread ranks.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct OverlapBenchOptions {
  int rounds = 3;
  bool quick = false;  // a smaller model, one round
};

// {"backward_ms":..,"slowed":{"off_ms":..,"on_ms":..,"hidden":..},"plain":{..},"at_least":0.6}
Json run_overlap_bench(const OverlapBenchOptions& options);
void print_overlap_bench(const Json& result);
int overlap_bench_status(const Json& result);  // 0 when enough is hidden, else 1

}  // namespace shardproof::bench

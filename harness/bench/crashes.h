// crashes: `shardproof bench crashes`: how many crash states of saves are judged in a second. Each
// is opened, listed, every checkpoint on it verified and loaded, its state digest and bytes
// compared; the time counts all that it takes, the saves and the deriving of the states too.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct CrashBenchOptions {
  bool quick = false;  // a fraction of the states
};

// Error corrupt when a state is broken.
Json run_crash_bench(const CrashBenchOptions& options);
void print_crash_bench(const Json& result);
int crash_bench_status(const Json& result);  // 0 when every ratio asked for was met, else 1

}  // namespace shardproof::bench

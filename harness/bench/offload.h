// offload: `shardproof bench offload`: what offloading costs a step: the same run with its state on
// the device, in host memory and in files, 10.9 M parameters on two thread ranks, under ZeRO 1
// (optimizer state) and ZeRO 3 (shares of parameters, too). Rounds are interleaved, ratios are
// medians. Device and host are both RAM here, and files stay in the page cache where there is room:
// the figures are of copies and calls, not of a bus or a disk. Nothing is asked of them.
#pragma once

#include "base/json.h"

namespace shardproof::bench {

struct OffloadBenchOptions {
  int rounds = 3;
  bool quick = false;  // the tiny model, one round
};

// [{"layout":"dp2.zero1","to":"host","ms":..,"optimizer_ms":..,"ratio":..}], "none" first
Json run_offload_bench(const OffloadBenchOptions& options);
void print_offload_bench(const Json& result);

}  // namespace shardproof::bench

// ladder_rungs: what `accept --ladder` climbs, on one Case: one batch learnt by heart on one rank;
// two ranks; a larger world at the same global batch; ZeRO and the precision of float32; two nodes;
// faults and recovery. Thread rule: one rung at a time.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "harness/ladder.h"
#include "train/config.h"

namespace shardproof {

inline constexpr int rung_count = 6;

struct LadderPlace {
  std::string out;      // traces go to legs/ in it; those of rows that pass are not kept
  std::string program;  // the command `shardproof`; empty: this executable is it
  const std::atomic<bool>* stop = nullptr;
};

// `config`: the Case, and the backend of the rungs on several ranks. A fault in it befalls those
// ranks alone, not their reference.
std::vector<Rung> plan_rungs(const Config& config, const LadderPlace& place);

// One batch on one rank without dropout or smoothing, over and over.
Config one_batch_case(Config config);
std::string one_batch_trace(const LadderPlace& place);  // the folder of its trace

}  // namespace shardproof

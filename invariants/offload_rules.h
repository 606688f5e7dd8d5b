// offload_rules: what a run that says it offloads must show in its memory events: nothing of what
// is offloaded stays on the device after a step, a step never has more of it there than its window,
// host memory holds it or holds nothing (a file does), and every step brings each byte in and puts
// it out once. Torch-free. Thread rule: pure.
// Not checked here: that all state is counted (check_memory.cpp), and what a file holds.
#pragma once

#include <string>

#include "trace/reader.h"

namespace shardproof {

// What a run claims: section `parallel` of its config; a run that does not say so offloads nothing.
struct OffloadClaim {
  std::string optimizer = "none", parameters = "none";  // none | host | file
  std::int64_t window = 0;  // bytes of optimizer state on the device at once; 0: not said
};
OffloadClaim offload_claim(const Trace& trace);

// One sentence about the first memory event that breaks the claim; empty when none does.
std::string offload_problem(const RankTrace& rank, const OffloadClaim& claim);

}  // namespace shardproof

// doctor_ranks: each rank tries itself before a run: a product of small whole numbers, whose bits
// are the same with every kernel and are known, and sums over all ranks that are known too. Names
// the ranks that are wrong. Ranks are threads of this process: what is tried is this machine's
// cores and memory, not a network. Thread rule: one at a time.
#pragma once

#include <functional>
#include <span>

#include "harness/doctor.h"

namespace shardproof {

// For tests: may change what a rank has computed.
struct RankSpoiler {
  std::function<void(int rank, std::span<float>)> product;
  std::function<void(int rank, std::span<std::int64_t>)> sums;
};

Finding ranks_finding(int ranks, const RankSpoiler& spoiler = {});

}  // namespace shardproof

// state_sums: checksums of what a rank holds of the training state, by kind and piece, to say later
// whether a bit of it has changed, and where. Thread rule: the rank's thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "parallel/plan.h"

namespace shardproof {

struct ShardSum {
  std::string what;
  int piece_index = 0;
  ElementRange range;
  std::uint64_t sum = 0;
};
using StateSums = std::vector<ShardSum>;

// Of everything this rank holds of these kinds ("param", "grad", ...).
StateSums state_sums(Plan& plan, const std::vector<std::string>& kinds);
// One word over sums; `whole_only`: of parameters that are not cut into pieces.
std::uint64_t digest_of(const StateSums& sums, const PieceTable& table, bool whole_only = false);
// The first piece whose sum is another one now, one phrase ("param blocks.0.mlp.up.weight, piece 1
// of 2, elements 0 to 1024"); empty: none.
std::string first_difference(const StateSums& before, const StateSums& now,
                             const PieceTable& table);

}  // namespace shardproof

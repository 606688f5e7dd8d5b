// seating: which of the ranks that are alive work in the next go of an elastic run, and on which
// layout: the largest legal one (smaller_layout.h) of the ranks that are ready. A rank is ready
// when it has its data: those that began the job, and spares from the regroup after the one that
// called them. So those that are left go on at once, a spare gets ready beside them, and joins at a
// later step boundary. Where the ready ones have no legal layout, or all begin anyway, the others
// count as well. Torch-free. Thread rule: pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train/config.h"

namespace shardproof {

struct Seating {
  std::string layout;
  std::vector<int> workers;  // positions among the living, ascending: the ranks of the layout
  bool grows = false;        // all that are alive have a larger layout
};

// `ready`: of each rank that is alive. Nothing: no legal layout is left.
std::optional<Seating> seating(const Config& config, const std::vector<bool>& ready, bool anew);

}  // namespace shardproof

// schedule_testing: for tests of schedules: the first micro-batches, and a layout of pp alone.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "mesh/layout.h"

namespace shardproof {

inline std::vector<int> first(int n) {
  std::vector<int> micro_batches(static_cast<std::size_t>(n));
  std::iota(micro_batches.begin(), micro_batches.end(), 0);
  return micro_batches;
}

inline Layout pipeline(int stages, const std::string& schedule) {
  Layout layout;
  layout.pp = stages;
  layout.schedule = schedule;
  return layout;
}

}  // namespace shardproof

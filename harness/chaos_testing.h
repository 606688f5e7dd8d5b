// chaos_testing: for tests: seeds of drawn faults, each to its end.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "faults/inject/fault_draw.h"
#include "harness/campaign.h"
#include "train/case_testing.h"

namespace shardproof {

inline Config chaos_case(const std::string& layout, int steps) {
  Config config = small_case(layout, steps);
  config.training.global_batch = 8;
  return with_fault_defaults(config);
}

inline void expect_order(const std::string& layout, int steps, std::uint64_t first, int seeds) {
  FaultRunner runner(30);
  const Config config = chaos_case(layout, steps);
  const auto points = runner.discover(config);
  int fired = 0;
  for (int i = 0; i < seeds; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    FaultScenario scenario{config, draw_faults(points, {}, seed), "", ""};
    scenario.drawn = true;
    const FaultResult result = runner.run(scenario);
    EXPECT_TRUE(result.pass) << "seed " << seed << ": " << result.why << "\n"
                             << fault_replay_line(scenario);
    for (const FaultRunEnd& run : result.runs) fired += static_cast<int>(run.fired.size());
  }
  EXPECT_GE(fired, seeds) << "every scenario fires something";
}

}  // namespace shardproof

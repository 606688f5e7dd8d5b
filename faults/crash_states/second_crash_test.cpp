// ctest: fault timeout=300
// A crash, a fresh process that saves on what is left, and a crash again: still the old checkpoint
// or a new one. A sample of first crashes here, all of those of one rank in the nightly test.
#include "faults/crash_states/survey_testing.h"

namespace shardproof::crash {
namespace {

TEST(SecondCrash, LeavesTheOldOrANewCheckpoint) {
  const auto some = [](std::size_t i) { return i % 64 == 37; };
  std::vector<Scenario> scenarios;
  for (const Scenario& first : plain_saves()) {
    for (Scenario& second : second_crashes(first, some)) scenarios.push_back(std::move(second));
  }
  const Tally all = testing::expect_none_broken(scenarios, 16);
  EXPECT_GE(scenarios.size(), 10u);
  EXPECT_GT(all.different, 5000u);
}

}  // namespace
}  // namespace shardproof::crash

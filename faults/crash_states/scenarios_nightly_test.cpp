// ctest: fault timeout=1800 nightly
// scenarios: every crash state of every scenario, and of a second crash after each crash of a save.
#include "faults/crash_states/survey_testing.h"

namespace shardproof::crash {
namespace {

TEST(CrashStatesNightly, OfAllScenariosAreOldOrNew) {
  for (const auto& scenarios :
       {plain_saves(), other_saves(), interrupted_saves(), two_writers(), prunings()}) {
    const Tally all = testing::expect_none_broken(scenarios, 1);
    EXPECT_EQ(all.judged, all.different);
  }
}

TEST(CrashStatesNightly, OfSavesAfterAnyCrashAreOldOrNew) {
  for (const Scenario& first : plain_saves()) {
    const bool lone = first.name.ends_with("1 rank");
    const auto keep = [&](std::size_t i) { return lone || i % 8 == 0; };
    testing::expect_none_broken(second_crashes(first, keep), 4);
  }
}

}  // namespace
}  // namespace shardproof::crash

// ctest: fault timeout=60 processors=2
// The recoveries of the ladder's last rung: clean layouts pass, and what must not pass does not.
#include "harness/ladder_recovery.h"

#include <gtest/gtest.h>

#include "train/case_testing.h"

namespace shardproof {
namespace {

TEST(LadderRecovery, ADeathIsOutlivedByARestartAndInPlace) {
  for (const char* layout : {"dp2.zero1", "dp4.zero1"}) {
    const Verdict verdict = judge_recoveries(small_case(layout, 6), layout, nullptr);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    ASSERT_EQ(verdict.notes.size(), 1U);
    EXPECT_NE(verdict.notes[0].find("!kill"), std::string::npos) << verdict.notes[0];
  }
}

TEST(LadderRecovery, ARunThatNobodyDiesInShowsNothing) {
  const Verdict verdict =
      judge_recoveries(small_case("dp2.zero1", 6), "dp2.zero1", nullptr, "step:1:3:forward!delay");
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("restart: 0 deaths"), std::string::npos) << verdict.reason;
}

TEST(LadderRecovery, AChangedTrajectoryFails) {
  Config config = small_case("dp2.zero1", 6);
  config.guard.spike_factor = 0;
  const Verdict verdict = judge_recoveries(
      config, "dp2.zero1", nullptr, "step:1:3:clipped!learning_rate=3;step:1:4:forward!kill");
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("restart: "), std::string::npos) << verdict.reason;
  EXPECT_NE(verdict.reason.find("another"), std::string::npos) << verdict.reason;
}

}  // namespace
}  // namespace shardproof

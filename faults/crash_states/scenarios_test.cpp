// ctest: fault timeout=300
// scenarios: after any crash of any of them the newest checkpoint is the old one or the new one.
// The long ones judge every n-th state without a new manifest here, all of them in the nightly
// test.
#include "faults/crash_states/scenarios.h"

#include "faults/crash_states/survey_testing.h"

namespace shardproof::crash {
namespace {

TEST(CrashStates, OfPlainSavesAreOldOrNew) {
  const Tally all = testing::expect_none_broken(plain_saves(), 1);
  EXPECT_GT(all.judged, 3000u);
  EXPECT_EQ(all.judged, all.different);
  EXPECT_GT(all.count(Verdict::old_one), 1000u);
  EXPECT_GT(all.count(Verdict::new_one), 20u);
  EXPECT_GT(all.count(Verdict::none_yet), 1000u);
  EXPECT_EQ(all.by_kind.size(), 15u);  // names kept, lost, reordered x five fates of bytes
}

TEST(CrashStates, OfOtherSavesAreOldOrNew) {
  const Tally all = testing::expect_none_broken(other_saves(), 4);
  EXPECT_GT(all.different, 1500u);
  EXPECT_GT(all.count(Verdict::new_one), 20u);
  EXPECT_EQ(all.count(Verdict::none_yet), 0u);
}

TEST(CrashStates, OfInterruptedSavesAreOldOrNew) {
  const Tally all = testing::expect_none_broken(interrupted_saves(), 32);
  EXPECT_GT(all.different, 15000u);
  EXPECT_GT(all.count(Verdict::new_one), 1000u);
  EXPECT_EQ(all.count(Verdict::none_yet), 0u);
}

TEST(CrashStates, OfWhatAResumeFoundAreThatOne) {
  const Tally all = testing::expect_none_broken({found_after_a_kill()}, 1);
  EXPECT_GT(all.different, 100u);
  EXPECT_GT(all.count(Verdict::new_one), 0u);
}

TEST(CrashStates, OfTwoWritersAreOldOrNew) {
  const Tally all = testing::expect_none_broken(two_writers(), 32);
  EXPECT_GT(all.different, 5000u);
  EXPECT_GT(all.count(Verdict::new_one), 1000u);
  EXPECT_EQ(all.count(Verdict::none_yet), 0u);
}

// A scenario that breaks its promise is caught, and so are the states of two checkpoints mixed.
TEST(CrashStates, OfACheckpointThatIsTakenAwayAreBroken) {
  const Scenario removes{"remove", one_checkpoint, once([](CrashWorld& world) {
                           world.storage()->remove(manifest_path("step-1"));
                         })};
  const Tally tally = survey(removes);
  EXPECT_EQ(tally.count(Verdict::old_one), 1u);
  EXPECT_EQ(tally.count(Verdict::broken), 1u);
  EXPECT_NE(tally.broken.at(0).find("step-1: was promised and is gone"), std::string::npos)
      << tally.broken[0];
}

TEST(CrashStates, OfAnIdThatHoldsAnotherStateAreBroken) {
  const Scenario other{"other state", one_checkpoint, once([](CrashWorld& world) {
                         auto state = small_state(9);
                         const auto disk = world.storage();
                         world.expect("step-2", 2);
                         ::shardproof::testing::write_small(*disk, 1, "step-2", state,
                                                            facts_of("step-2"));
                       })};
  const Tally tally = survey(other);
  EXPECT_GT(tally.count(Verdict::broken), 0u);
  EXPECT_NE(tally.broken.at(0).find("a state that was never saved"), std::string::npos);
}

}  // namespace
}  // namespace shardproof::crash

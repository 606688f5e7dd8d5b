// ctest: fault timeout=3000 nightly
// The command itself as the saver of a crash sweep: two ranks train, save and go on from what they
// saved, and every kill leaves the old checkpoint or the new one.
#include <gtest/gtest.h>

#include "harness/sweep/crash_sweep.h"
#include "harness/sweep/sweep_report.h"

namespace shardproof {
namespace {

TEST(TrainSweep, EveryKillLeavesTheOldCheckpointOrTheNew) {
  const TempFolder folder;
  const std::string program = "'" SHARDPROOF_COMMAND "' ";
  const std::string first = program +
                            "train --checkpoint {root} --layout dp2.zero1 --set "
                            "model.layers=1 --set checkpoint.every=1 --set "
                            "training.steps=1";
  SweepSubject subject(SweepCommands{
      folder.file("root"),
      {"sh", "-c",
       "if [ {n} = 1 ]; then " + first + "; else " + program + "resume {root} --steps 2; fi"},
      program + "checkpoint verify {root} >&2 && " + program + "checkpoint list {root}",
      std::chrono::seconds(120)});
  const Baselines baselines = run_uncut(subject);
  const CrashSweep found = sweep_crashes(subject, baselines, {});
  for (const SweepPoint& point : found.points) EXPECT_TRUE(point.good) << line_of(point);
  EXPECT_GT(found.count(2, Found::old_state), 20u) << summary(found);
  EXPECT_GT(found.count(2, Found::new_state), 0u) << summary(found);
}

}  // namespace
}  // namespace shardproof

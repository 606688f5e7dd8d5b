// ctest: peer timeout=600
// torch.distributed.checkpoint overwrites a checkpoint in place: killed within, it often leaves
// nothing that can be loaded. The table is printed. Skipped (77) where no Python has PyTorch
// (ci/install --peers).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "harness/sweep/crash_sweep.h"
#include "harness/sweep/sweep_report.h"

namespace shardproof {
namespace {

const std::string python = SHARDPROOF_PEERS_PYTHON;
const std::string subject_file = SHARDPROOF_SUBJECTS "/dcp_saver.py";

TEST(DcpSweep, LosesBothStatesWhereItOverwrites) {
  const TempFolder folder;
  SweepSubject subject(SweepCommands{folder.file("root"),
                                     {python, subject_file, "save", "{root}", "{n}"},
                                     "'" + python + "' '" + subject_file + "' load {root}",
                                     std::chrono::seconds(100)});
  const Baselines baselines = run_uncut(subject);
  const CrashSweep found =
      sweep_crashes(subject, baselines, {.first = false}, [](const SweepPoint& point) {
        fmt::print("{}\n", line_of(point));
        std::fflush(stdout);
      });
  fmt::print("{}", summary(found));
  EXPECT_FALSE(found.good());
  EXPECT_EQ(found.mapped, 0u);
  EXPECT_EQ(found.count(2, Found::not_reached), 0u);
  EXPECT_EQ(found.points.front().found, Found::old_state) << "nothing was done";
  EXPECT_GT(found.count(2, Found::none) + found.count(2, Found::mixed), found.points.size() / 4);
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto has_torch = shardproof::run_command(
      {{shardproof::python, "-c", "import torch.distributed.checkpoint"}, {}},
      std::chrono::seconds(100));
  if (has_torch.exit_code != 0) {
    fmt::print("skipped: {} has no torch.distributed.checkpoint\n", shardproof::python);
    return 77;
  }
  return RUN_ALL_TESTS();
}

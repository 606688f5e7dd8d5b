// ctest: unit
#include "parallel/schedule.h"

#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "parallel/schedule_testing.h"

namespace shardproof {
namespace {

std::string text(const Layout& layout, int pp_rank, const std::vector<int>& micro_batches) {
  std::vector<std::string> words;
  for (const Action& action : stage_schedule(layout, pp_rank, micro_batches)) {
    words.push_back(print(action));
  }
  return fmt::format("{}", fmt::join(words, " "));
}

TEST(Schedule, GpipeRunsAllForwardsFirstAndBackwardsAscending) {
  for (int stage = 0; stage < 3; ++stage) {
    EXPECT_EQ(text(pipeline(3, "gpipe"), stage, first(4)), "F0 F1 F2 F3 B0 B1 B2 B3");
  }
}

TEST(Schedule, OneForwardOneBackwardKeepsOneMicroBatchPerStageBehind) {
  EXPECT_EQ(text(pipeline(3, "1f1b"), 0, first(4)), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(text(pipeline(3, "1f1b"), 1, first(4)), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(text(pipeline(3, "1f1b"), 2, first(4)), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(text(pipeline(4, "1f1b"), 0, first(2)), "F0 F1 B0 B1") << "fewer than stages";
}

TEST(Schedule, InterleavedPassesThroughTheChunksInRounds) {
  EXPECT_EQ(text(pipeline(2, "int2"), 0, first(4)),
            "F0 F1 F0.1 F1.1 F2 B0.1 F3 B1.1 F2.1 B0 F3.1 B1 B2.1 B3.1 B2 B3");
  EXPECT_EQ(text(pipeline(2, "int2"), 1, first(2)), "F0 F1 F0.1 B0.1 F1.1 B1.1 B0 B1");
}

TEST(Schedule, ZeroBubbleRunsWeightGradientsAStagesNumberLater) {
  EXPECT_EQ(text(pipeline(2, "zb"), 0, first(3)), "F0 F1 I0 W0 F2 I1 W1 I2 W2");
  EXPECT_EQ(text(pipeline(2, "zb"), 1, first(3)), "F0 I0 F1 I1 W0 F2 I2 W1 W2");
}

TEST(Schedule, GlobalIndicesOfADataRankAreKept) {
  EXPECT_EQ(text(pipeline(2, "1f1b"), 0, {3, 4, 7}), "F3 F4 B3 F7 B4 B7");
  EXPECT_EQ(text(pipeline(2, "zb"), 0, {}), "");
}

TEST(Schedule, ChunksComeFromTheName) {
  EXPECT_EQ(chunks_of(pipeline(2, "1f1b")), 1);
  EXPECT_EQ(chunks_of(pipeline(2, "int3")), 3);
  EXPECT_EQ(chunks_of(parse_layout("pp4-int12")), 12);
}

TEST(ScheduleDeathTest, InterleavedNeedsWholeRounds) {
  EXPECT_DEATH(stage_schedule(pipeline(2, "int2"), 0, first(3)), "1 vs 0");
  EXPECT_DEATH(stage_schedule(pipeline(2, "1f1b"), 2, first(3)), "stage 2");
}

RC_GTEST_PROP(Schedule, ActionsOfAChunkAscendInTheMicroBatch, ()) {
  const int stages = *rc::gen::inRange(2, 7);
  const auto kind = *rc::gen::element<std::string>("gpipe", "1f1b", "int2", "int3", "zb");
  const int rounds = *rc::gen::inRange(0, 4);
  const int own = kind.starts_with("int") ? rounds * stages : *rc::gen::inRange(0, 13);
  std::vector<int> micro_batches = first(own);
  for (int& m : micro_batches) m = 3 * m + 1;
  const Layout layout = pipeline(stages, kind);
  for (const Schedule& schedule : all_stages(layout, micro_batches)) {
    std::map<std::pair<ActionKind, int>, std::vector<int>> order;
    for (const Action& a : schedule) order[{a.kind, a.chunk}].push_back(a.micro_batch);
    for (const auto& [of, run] : order) RC_ASSERT(run == micro_batches);
    const std::size_t kinds = kind == "zb" ? 3 : 2;
    RC_ASSERT(order.size() == (own == 0 ? 0 : kinds * static_cast<std::size_t>(chunks_of(layout))));
  }
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "parallel/stage_layers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

using Ranges = std::vector<LayerRange>;

TEST(StageLayers, BalancedRunsInTheOrderOfTheVirtualStages) {
  EXPECT_EQ(stage_layers(parse_layout("dp2"), 5), (Ranges{{0, 5}}));
  EXPECT_EQ(stage_layers(parse_layout("pp2"), 8), (Ranges{{0, 4}, {4, 8}}));
  EXPECT_EQ(stage_layers(parse_layout("pp2-int2"), 8), (Ranges{{0, 2}, {2, 4}, {4, 6}, {6, 8}}));
}

TEST(StageLayers, ChunksOfARankAreAPipelineApart) {
  EXPECT_EQ(chunk_layers(parse_layout("pp2-int2"), 0, 8), (Ranges{{0, 2}, {4, 6}}));
  EXPECT_EQ(chunk_layers(parse_layout("pp2-int2"), 1, 8), (Ranges{{2, 4}, {6, 8}}));
  EXPECT_EQ(chunk_layers(parse_layout("pp4-zb"), 3, 8), (Ranges{{6, 8}}));
}

TEST(StageLayers, SizesMayBeGiven) {
  EXPECT_EQ(stage_layers(parse_layout("pp2"), 8, {3, 5}), (Ranges{{0, 3}, {3, 8}}));
  EXPECT_EQ(chunk_layers(parse_layout("pp2-int2"), 1, 8, {1, 2, 2, 3}), (Ranges{{1, 3}, {5, 8}}));
}

TEST(StageLayersDeathTest, SizesAddUpToTheModel) {
  EXPECT_DEATH(stage_layers(parse_layout("pp2"), 8, {3, 4}), "7 vs 8");
  EXPECT_DEATH(stage_layers(parse_layout("pp2"), 8, {0, 8}), "1 vs 0");
  EXPECT_DEATH(stage_layers(parse_layout("pp2"), 8, {8}), "1 vs 2");
  EXPECT_DEATH(stage_layers(parse_layout("pp4"), 3), "4 vs 3");
}

RC_GTEST_PROP(StageLayers, EveryParameterIsOnExactlyOneStage, ()) {
  Layout layout;
  layout.pp = *rc::gen::inRange(1, 5);
  const int chunks = layout.pp > 1 ? *rc::gen::inRange(1, 4) : 1;
  if (chunks > 1) layout.schedule = "int" + std::to_string(chunks);
  const int stages = virtual_stages(layout);
  GptShape shape;
  shape.layers = *rc::gen::inRange(stages, 20);
  const Ranges ranges = stage_layers(layout, shape.layers);
  for (const PieceSpec& piece : gpt_pieces(shape)) {
    RC_ASSERT(std::ranges::count_if(ranges, [&](const LayerRange& range) {
                return holds(range, shape, piece.name);
              }) == 1);
  }
  shape.tied = true;
  const auto embeddings = std::ranges::count_if(
      ranges, [&](const LayerRange& range) { return holds(range, shape, "embed.weight"); });
  RC_ASSERT(embeddings == std::min(stages, 2));  // the head's stage too
  const auto [least, most] = std::ranges::minmax(
      ranges, {}, [](const LayerRange& range) { return range.last - range.first; });
  RC_ASSERT(most.last - most.first - (least.last - least.first) <= 1);
}

TEST(StageLayersDeathTest, AParameterThatNoStageKnowsIsABug) {
  EXPECT_TRUE(holds({0, 2}, {}, "blocks.1.attn.q.weight"));
  EXPECT_DEATH(holds({0, 2}, {}, "extra.weight"), "a parameter of no stage: extra.weight");
}

}  // namespace
}  // namespace shardproof

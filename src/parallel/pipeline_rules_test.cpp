// ctest: unit
#include "parallel/pipeline_rules.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "parallel/schedule_simulator.h"

namespace shardproof {
namespace {

GptShape with_layers(int layers) {
  GptShape shape;
  shape.layers = layers;
  return shape;
}

void expect_refusal(const char* layout, int layers, int micro_batches,
                    const std::vector<int>& sizes, std::initializer_list<const char*> parts) {
  const std::string text =
      pipeline_problem(parse_layout(layout), with_layers(layers), micro_batches, sizes);
  for (const char* part : parts) {
    EXPECT_NE(text.find(part), text.npos) << "\"" << text << "\" lacks \"" << part << "\"";
  }
}

TEST(PipelineRules, LegalPipelines) {
  for (const char* text :
       {"pp2", "pp8", "pp4-int2", "pp2-int4", "pp8-zb", "dp3.pp8-gpipe", "dp2"}) {
    const int micro_batches = parse_layout(text).dp == 3 ? 5 : 8;
    EXPECT_EQ(pipeline_problem(parse_layout(text), with_layers(8), micro_batches), "") << text;
  }
  EXPECT_EQ(pipeline_problem(parse_layout("pp2"), with_layers(8), 3, {3, 5}), "");
  EXPECT_EQ(pipeline_problem(parse_layout("dp1"), with_layers(8), 3, {8}), "");
}

TEST(PipelineRules, EveryStageNeedsALayer) {
  expect_refusal(
      "pp4", 2, 4, {},
      {"layout pp4", "on each of 4 stages and there are 2 (model.layers)", "expected pp 1 to 2"});
  expect_refusal(
      "pp4-int3", 10, 4, {},
      {"pp 4 x 3 chunks a rank", "12 stages", "expected pp3-int3 or pp4-int2 or pp 1 to 10"});
  expect_refusal("pp2-zb", 1, 4, {}, {"there is 1", "expected pp 1"});
}

TEST(PipelineRules, InterleavingNeedsWholeRounds) {
  expect_refusal("pp2-int2", 8, 3, {},
                 {"layout pp2-int2", "rounds of pp 2 micro-batches", "there are 3 a step",
                  "expected a multiple of 2, such as 2 or 4"});
  expect_refusal("dp2.pp4-int2", 8, 4, {},
                 {"on each of 2 data ranks", "expected a multiple of 8, such as 8,"});
  EXPECT_EQ(rounds_problem(parse_layout("dp2.pp4-int2"), 16), "");
  EXPECT_EQ(rounds_problem(parse_layout("dp2.pp4-zb"), 3), "");
}

TEST(PipelineRules, StageSizesAddUp) {
  expect_refusal("pp2", 8, 4, {3, 4},
                 {"parallel.stage_layers [3, 4] are 2 sizes with the sum 7",
                  "each of 2 stages with the sum 8", "such as [4, 4]"});
  expect_refusal("pp2-int2", 8, 4, {3, 5}, {"each of 4 stages", "such as [2, 2, 2, 2]"});
  expect_refusal("pp2", 8, 4, {0, 8}, {"at least 1"});
  expect_refusal("dp2", 8, 4, {4, 4}, {"each of 1 stage with the sum 8", "such as [8]"});
}

TEST(PipelineRules, TheWaysBetweenStagesHaveTags) {
  GptShape shape = with_layers(1024);
  shape.sequence = shape.sequence_pieces = 1024;
  const std::string text = pipeline_problem(parse_layout("pp1024"), shape, 4);
  EXPECT_NE(text.find("expected a product of at most 524288"), text.npos) << text;
}

TEST(PipelineRules, AScheduleWithACircleIsRefusedBeforeAnyRankWaits) {
  const Layout layout = parse_layout("pp2");
  auto stages = all_stages(layout, {0, 1, 2});
  EXPECT_EQ(schedule_problem(layout, stages), "");
  std::swap(stages[0][1], stages[0][2]);  // stage 0 wants a gradient too early
  std::swap(stages[1][1], stages[1][2]);  // of a backward that stage 1 runs too late
  const std::string text = schedule_problem(layout, stages);
  EXPECT_NE(
      text.find("layout pp2: its schedule is refused: stages wait for each other in a circle: "
                "stage 0 at B0 waits for"),
      text.npos)
      << text;
}

// What the rules let through, the simulator accepts.
RC_GTEST_PROP(PipelineRules, ALegalPipelineNeverHangs, ()) {
  Layout layout;
  layout.pp = *rc::gen::inRange(2, 6);
  layout.dp = *rc::gen::inRange(1, 4);
  layout.schedule = *rc::gen::element<std::string>("gpipe", "1f1b", "int2", "int3", "zb");
  const int micro_batches = *rc::gen::inRange(1, 25);
  const GptShape shape = with_layers(*rc::gen::inRange(1, 20));
  if (!pipeline_problem(layout, shape, micro_batches).empty()) return;
  for (int data_rank = 0; data_rank < layout.dp; ++data_rank) {
    const auto mine = owned_micro_batches(layout, micro_batches, data_rank);
    simulate(all_stages(layout, mine), chunks_of(layout));
  }
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "parallel/legality.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(Legality, DataParallelWithZeroStagesZeroAndOneIsLegal) {
  for (const char* text : {"dp1", "dp4", "dp4.zero1", "dp6.zero1", "dp1.zero1"}) {
    EXPECT_EQ(problem(parse_layout(text), GptShape{}, 4), "") << text;
  }
  // Uneven shares, and ranks without a micro-batch.
  EXPECT_EQ(problem(parse_layout("dp3.zero1"), GptShape{}, 4), "");
  EXPECT_EQ(problem(parse_layout("dp6"), GptShape{}, 4), "");
}

TEST(Legality, WhatIsNotSupportedYetIsNamed) {
  struct Case {
    const char* layout;
    const char* name;
  };
  const Case cases[] = {
      {"tp2", "tensor parallelism (tp)"},
      {"cp2", "context parallelism (cp)"},
      {"dp2.pp2", "pipeline parallelism (pp)"},
      {"ep2", "expert parallelism (ep)"},
      {"dp2.zero2", "ZeRO stage 2"},
      {"dp2.fsdp", "ZeRO stage 3 (fsdp)"},
      {"dp4.zero1-shard2", "-shardF"},
  };
  for (const Case& each : cases) {
    const std::string text = problem(parse_layout(each.layout), GptShape{}, 4);
    EXPECT_TRUE(holds(text, each.name)) << text;
    EXPECT_TRUE(holds(text, parse_layout(each.layout).print())) << text;
    EXPECT_TRUE(holds(text, "is not supported yet; supported: dpN with zero0 or zero1")) << text;
  }
}

TEST(Legality, WorldSizeMustFit) {
  EXPECT_EQ(problem(parse_layout("dp4.zero1"), GptShape{}, 4, 4), "");
  EXPECT_EQ(problem(parse_layout("dp4.zero1"), GptShape{}, 4, 3),
            "layout dp4.zero1 needs 4 ranks and there are 3; expected dp3");
}

TEST(Legality, TheModelAndTheBatchMustBeThere) {
  GptShape shape;
  shape.heads = 3;
  EXPECT_EQ(problem(Layout{}, shape, 4), problem(shape));
  EXPECT_NE(problem(shape), "");
  EXPECT_EQ(problem(Layout{}, GptShape{}, 0), "0 micro-batches a step; expected at least 1");
}

}  // namespace
}  // namespace shardproof

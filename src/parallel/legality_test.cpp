// ctest: unit
#include "parallel/legality.h"

#include <gtest/gtest.h>

#include "base/error.h"

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
      {"ep2", "expert parallelism (ep)"},
  };
  for (const Case& each : cases) {
    const std::string text = problem(parse_layout(each.layout), GptShape{}, 4);
    EXPECT_TRUE(holds(text, each.name)) << text;
    EXPECT_TRUE(holds(text, parse_layout(each.layout).print())) << text;
    EXPECT_TRUE(holds(text, "is not supported yet; supported: dpN, tpN")) << text;
  }
}

TEST(Legality, ShardGroupsDivideDpAndEveryRankRunsAsManyMicroBatches) {
  for (const char* text : {"dp2.zero2", "dp4.fsdp", "dp4.zero1-shard2", "dp4.zero3-shard1"}) {
    EXPECT_EQ(problem(parse_layout(text), GptShape{}, 4), "") << text;
  }
  const struct {
    const char* layout;
    const char* rule;
    const char* nearest;
  } cases[] = {
      {"dp3.zero2", "dp 3 must divide the 4 micro-batches of a step",
       "expected dp 2 or 4, or zero1"},
      {"dp5.zero3", "dp 5 must divide the 4 micro-batches of a step", "expected dp 4, or zero1"},
      {"dp4.zero1-shard3", "a shard group of 3 must divide dp 4", "expected shard2 or 4"},
      {"dp4-shard2", "zero0 shares none", "expected zero1, zero2 or zero3, or no shard"},
  };
  for (const auto& each : cases) {
    Layout layout;
    try {
      layout = parse_layout(each.layout);
    } catch (const Error&) {
      layout = Layout{.dp = 4, .shard_group = 2};  // not written so, but a Layout is data
    }
    const std::string text = problem(layout, GptShape{}, 4);
    EXPECT_TRUE(holds(text, each.rule)) << text;
    EXPECT_TRUE(holds(text, each.nearest)) << text;
  }
}

TEST(Legality, TensorAndContextRanksNeedPieces) {
  GptShape shape;
  shape.tensor_pieces = 4;
  shape.sequence_pieces = 4;
  for (const char* text :
       {"tp2", "tp3", "tp4", "tp2.sp", "tp4.sp", "cp2", "cp3", "cp4", "cp2-zigzag",
        "dp2.tp2.sp.cp2.zero1", "tp2.sp.cp2-zigzag", "dp5.tp3.cp3.zero1"}) {
    EXPECT_EQ(problem(parse_layout(text), shape, 4), "") << text;
  }
  const struct {
    const char* layout;
    const char* rule;
    const char* nearest;
  } cases[] = {
      {"tp5", "tp 5 needs a tensor piece on every rank and there are 4", "expected tp 1 to 4"},
      {"cp5", "cp 5 needs 1 sequence piece on every rank and there are 4", "expected cp 1 to 4"},
      {"cp3-zigzag",
       "cp 3-zigzag needs 6 sequence pieces, one from each end of the sequence for each of its 3 "
       "ranks, and there are 4",
       "expected cp 1 to 4 without zigzag, cp2-zigzag or numerics.sequence_pieces=6"},
      {"tp4.sp.cp2", "its 4 tp ranks and the smallest share is 2 of 4",
       "expected tp 2 to 2 with sp, or no sp"},
      {"tp2.sp.cp4", "the smallest share is 1 of 4", "expected no sp"},
  };
  for (const auto& each : cases) {
    const std::string text = problem(parse_layout(each.layout), shape, 4);
    EXPECT_TRUE(holds(text, each.rule)) << text;
    EXPECT_TRUE(holds(text, each.nearest)) << text;
    EXPECT_TRUE(holds(text, std::string("layout ") + each.layout)) << text;
  }
  shape.sequence_pieces = 2;
  EXPECT_TRUE(holds(problem(parse_layout("cp2-zigzag"), shape, 4),
                    "expected cp 1 to 2 without zigzag or numerics.sequence_pieces=4"));
  EXPECT_TRUE(holds(problem(parse_layout("ep2"), shape, 4), "cpN-ring"));
}

TEST(Legality, UlyssesNeedsHeadsForEveryContextRank) {
  GptShape shape;
  shape.heads = 16;
  shape.tensor_pieces = 4;
  shape.sequence_pieces = 4;
  for (const char* text : {"cp2-ulysses", "cp3-ulysses", "cp4-ulysses", "tp2.cp2-ulysses",
                           "tp2.sp.cp2-ulysses", "dp3.cp4-ulysses.zero1"}) {
    EXPECT_EQ(problem(parse_layout(text), shape, 4), "") << text;
  }
  EXPECT_EQ(problem(parse_layout("tp2.cp4-ulysses"), shape, 4),
            "layout tp2.cp4-ulysses: cp 4-ulysses deals the tensor pieces (whole heads) of a tp "
            "rank to its 4 cp ranks and the smallest share is 2 of 4 (numerics.tensor_pieces, up "
            "to 16 heads); expected cp2-ulysses, numerics.tensor_pieces 8, or ring or zigzag");
  EXPECT_TRUE(holds(problem(parse_layout("tp3.cp2-ulysses"), shape, 4),
                    "the smallest share is 1 of 4 (numerics.tensor_pieces, up to 16 heads); "
                    "expected numerics.tensor_pieces 8, or ring or zigzag"));
  // No number of pieces would do: the heads are too few.
  shape.heads = 4;
  EXPECT_TRUE(holds(problem(parse_layout("tp2.cp4-ulysses"), shape, 4),
                    "up to 4 heads); expected cp2-ulysses, or ring or zigzag"));
  shape.sequence_pieces = 2;
  EXPECT_TRUE(holds(problem(parse_layout("cp4-ulysses"), shape, 4), "needs 1 sequence piece"));
}

TEST(Legality, WorldSizeMustFit) {
  EXPECT_EQ(problem(parse_layout("dp2.tp2"), GptShape{}, 4, 6),
            "layout dp2.tp2 needs 4 ranks and there are 6; expected dp3.tp2");
  EXPECT_EQ(problem(parse_layout("dp2.tp2"), GptShape{}, 4, 7),
            "layout dp2.tp2 needs 4 ranks and there are 7; expected 4 ranks, or dp3.tp2 on 6");
  EXPECT_EQ(problem(parse_layout("dp4.zero1"), GptShape{}, 4, 4), "");
  EXPECT_EQ(problem(parse_layout("dp4.zero1"), GptShape{}, 4, 3),
            "layout dp4.zero1 needs 4 ranks and there are 3; expected dp3.zero1");
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

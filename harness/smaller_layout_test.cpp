// ctest: unit timeout=60
// Smaller layouts: by hand for each rule, and against a search through all layouts.
#include "harness/smaller_layout.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "harness/layout_list.h"
#include "train/sections.h"

namespace shardproof {
namespace {

std::string smaller(Config config, const std::string& layout, int ranks) {
  config.run.layout = layout;
  const std::optional<Layout> found = smaller_layout(config, ranks);
  return found ? found->print() : "none";
}

TEST(SmallerLayout, OneThatFitsStays) {
  EXPECT_EQ(smaller({}, "dp4.zero1", 4), "dp4.zero1");
  EXPECT_EQ(smaller({}, "dp4.zero1", 9), "dp4.zero1");
  Config native;
  native.numerics.reduction = "native";
  EXPECT_EQ(smaller(native, "dp4.zero1", 4), "dp4.zero1");
  EXPECT_EQ(smaller(native, "dp4.zero1", 3), "none") << "would have other bits";
}

TEST(SmallerLayout, GivesUpDataRanksFirst) {
  EXPECT_EQ(smaller({}, "dp4.zero1", 3), "dp3.zero1");
  EXPECT_EQ(smaller({}, "dp4.zero1", 1), "dp1.zero1");
  EXPECT_EQ(smaller({}, "dp4.zero1", 0), "none");
  EXPECT_EQ(smaller({}, "dp2.tp2", 3), "tp2");
  EXPECT_EQ(smaller({}, "dp2.tp2.sp.pp2-zb.zero3", 7), "tp2.sp.pp2-zb.zero3");
  EXPECT_EQ(smaller({}, "tp2.sp.pp2-zb.zero3", 3), "pp2-zb.zero3") << "then tensor ranks";
  EXPECT_EQ(smaller({}, "tp2.cp2", 3), "tp2") << "context ranks before them";
}

TEST(SmallerLayout, KeepsMoreRanksWhereAnotherDegreeAllowsIt) {
  const Config config = case_config(CaseKind::odd);  // 6 micro-batches
  EXPECT_EQ(smaller(config, "dp3.tp2", 5), "dp2.tp2");
  EXPECT_EQ(smaller(config, "dp3.tp3", 8), "dp2.tp3");
  EXPECT_EQ(smaller(config, "dp6.tp2", 7), "dp3.tp2");
  EXPECT_EQ(smaller(config, "dp5.tp3", 5), "dp5") << "5 ranks, where dp1.tp3 has 3";
}

TEST(SmallerLayout, ObeysTheRulesOfTheConfig) {
  EXPECT_EQ(smaller({}, "dp4.zero2", 3), "dp2.zero2") << "dp divides the micro-batches";
  EXPECT_EQ(smaller({}, "dp4.zero3-shard2", 3), "dp2.zero3-shard2");
  EXPECT_EQ(smaller({}, "dp4.zero1-shard2", 3), "dp3.zero1") << "a group of 2 does not divide 3";
  Config fixed;
  fixed.training.accumulation = 1;
  EXPECT_EQ(smaller(fixed, "dp4.zero1", 3), "none") << "each rank runs one of 4 micro-batches";
  Config staged;
  staged.model.layers = 4;
  staged.parallel.stage_layers = {1, 3};
  EXPECT_EQ(smaller(staged, "dp2.pp2", 3), "pp2");
  EXPECT_EQ(smaller(staged, "dp2.pp2", 1), "none");
  Config interleaved;
  interleaved.model.layers = 6;
  EXPECT_EQ(smaller(interleaved, "dp2.pp2-int3", 3), "pp2-int3");
  Config faulty;
  faulty.run.fault = "3:1:backward:kill";
  EXPECT_EQ(smaller(faulty, "dp4", 3), "dp3") << "a fault of a rank that is gone is no reason";
}

// Nothing larger is legal among all layouts that grow in no degree and keep their kinds.
TEST(SmallerLayout, IsTheLargest) {
  for (const CaseKind kind : {CaseKind::shallow, CaseKind::odd}) {
    Config config = case_config(kind);
    const auto legal = legal_layouts(shape_of(config), config.micro_batches(), 6);
    for (const char* name : {"dp6.zero1", "dp3.tp2.zero2", "dp2.cp3", "cp2.tp3.sp", "dp2.pp3-zb"}) {
      config.run.layout = name;
      const Layout full = parse_layout(name);
      const auto is_below = [&](const Layout& other) {
        return other.dp <= full.dp && other.tp <= full.tp && other.cp <= full.cp &&
               other.pp <= full.pp && other.zero == full.zero &&
               other.shard_group == full.shard_group &&
               (other.tp == 1 || other.sequence_parallel == full.sequence_parallel) &&
               (other.cp == 1 || other.context_kind == full.context_kind) &&
               (other.pp == 1 || other.schedule == full.schedule);
      };
      for (int ranks = 1; ranks < full.world(); ++ranks) {
        int most = 0;
        for (const Layout& other : legal) {
          if (other.world() <= ranks && is_below(other)) most = std::max(most, other.world());
        }
        const auto found = smaller_layout(config, ranks);
        ASSERT_TRUE(found) << name << " on " << ranks;
        EXPECT_EQ(found->world(), most) << name << " on " << ranks << ": " << found->print();
        EXPECT_TRUE(is_below(*found)) << found->print();
      }
    }
  }
}

}  // namespace
}  // namespace shardproof

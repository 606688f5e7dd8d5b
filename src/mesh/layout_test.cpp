// ctest: unit
#include "mesh/layout.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <set>

#include "base/expect_error.h"

namespace shardproof {
namespace {

using Groups = std::vector<std::vector<int>>;
constexpr Axis every_axis[] = {Axis::tensor, Axis::context, Axis::expert, Axis::data,
                               Axis::pipeline};

// A layout that print() can show whole: kinds, schedules and flags only where they mean something.
Layout any_layout() {
  const auto degree = rc::gen::inRange(1, 4);
  Layout layout;
  layout.dp = *degree;
  layout.tp = *degree;
  layout.cp = *degree;
  layout.pp = *degree;
  layout.ep = *degree;
  layout.sequence_parallel = layout.tp > 1 && *rc::gen::arbitrary<bool>();
  if (layout.cp > 1) {
    layout.context_kind = *rc::gen::element<std::string>("ring", "zigzag", "ulysses");
  }
  if (layout.pp > 1) {
    layout.schedule = *rc::gen::element<std::string>("1f1b", "gpipe", "int2", "int16", "zb");
  }
  layout.zero = *rc::gen::inRange(0, 4);
  if (layout.zero > 0) layout.shard_group = *rc::gen::inRange(0, 5);
  return layout;
}

TEST(Layout, PrintsItsPartsInOneOrderWithoutThoseOfDegreeOne) {
  EXPECT_EQ(Layout{}.print(), "dp1");
  EXPECT_EQ((Layout{.dp = 2, .tp = 2, .pp = 2, .zero = 1}).print(), "dp2.tp2.pp2.zero1");
  Layout full{.dp = 2, .tp = 3, .cp = 4, .pp = 5, .ep = 6, .sequence_parallel = true};
  full.context_kind = "zigzag";
  full.schedule = "int2";
  full.zero = 3;
  full.shard_group = 2;
  EXPECT_EQ(full.print(), "dp2.tp3.sp.cp4-zigzag.pp5-int2.ep6.zero3-shard2");
  EXPECT_EQ((Layout{.zero = 1}).print(), "dp1.zero1");
}

TEST(Layout, ParsesBothSpellingsInAnyOrder) {
  const Layout expected{.dp = 2, .tp = 2, .zero = 1};
  EXPECT_EQ(parse_layout("dp2.tp2.zero1"), expected);
  EXPECT_EQ(parse_layout("dp=2,tp=2,zero=1"), expected);
  EXPECT_EQ(parse_layout("zero1,tp=2.dp2"), expected);
  EXPECT_EQ(parse_layout("fsdp").zero, 3);
  EXPECT_EQ(parse_layout("dp4.fsdp-shard2").shard_group, 2);
  EXPECT_EQ(parse_layout("dp1"), Layout{});
  EXPECT_EQ(parse_layout("cp2-ring").context_kind, "ring");
}

RC_GTEST_PROP(Layout, ParsingWhatWasPrintedGivesTheLayout, ()) {
  const Layout layout = any_layout();
  RC_ASSERT(parse_layout(layout.print()) == layout);
}

TEST(Layout, RefusesWhatItCannotRead) {
  struct Case {
    std::string_view text;
    std::string_view part;
  };
  const Case cases[] = {
      {"", "an empty layout"},
      {"dp2..tp2", "an empty part"},
      {"dp2.", "an empty part"},
      {"dq2", "part \"dq2\""},
      {"dp", "dp with a whole number >= 1"},
      {"dp0", "part \"dp0\""},
      {"dp-2", "part \"dp-2\""},
      {"dp2x", "part \"dp2x\""},
      {"dp99999999999", "part \"dp99999999999\""},
      {"dp2.dp2", "a second part \"dp2\""},
      {"zero1.fsdp", "a second part \"fsdp\""},
      {"zero4", "a whole number from 0 to 3"},
      {"zero0-shard2", "zero >= 1 to have shards"},
      {"zero1-half", "zeroK or zeroK-shardF"},
      {"zero1-shard0", "part \"zero1-shard0\""},
      {"sp", "sp without tp"},
      {"tp2.sp2", "sp without a number"},
      {"cp2-linear", "cpN-ring"},
      {"cp1-ring", "cp >= 2 to have a kind"},
      {"pp2-int1", "part \"pp2-int1\""},
      {"pp2-other", "ppN-gpipe"},
      {"pp1-zb", "pp >= 2 to have a schedule"},
      {"tp2-ring", "nothing after tp"},
      {"fsdp3", "fsdp without a number"},
      {"dp65536.tp65536", "more than 2^31 - 1 ranks"},
      {"dp2 tp2", "part \"dp2 tp2\""},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(std::string(each.text));
    expect_error(ErrorKind::bad_input, {"layout \"", each.text, each.part, "expected"},
                 [&] { parse_layout(each.text); });
  }
}

TEST(Layout, GroupsOfEightRanks) {
  const Layout layout = parse_layout("dp2.tp2.pp2");
  EXPECT_EQ(groups(layout, Axis::tensor), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups(layout, Axis::data), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(groups(layout, Axis::pipeline), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups(layout, Axis::context), (Groups{{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}}));
  EXPECT_EQ(print_groups(layout),
            "dp2.tp2.pp2: 8 ranks\n"
            "tp   2  [0 1] [2 3] [4 5] [6 7]\n"
            "cp   1  every rank alone\n"
            "ep   1  every rank alone\n"
            "dp   2  [0 2] [1 3] [4 6] [5 7]\n"
            "pp   2  [0 4] [1 5] [2 6] [3 7]\n");
  EXPECT_EQ(print_groups(Layout{}).substr(0, 12), "dp1: 1 rank\n");
}

RC_GTEST_PROP(Layout, CoordinatesAndRanksAreOneToOne, ()) {
  const Layout layout = any_layout();
  const int rank = *rc::gen::inRange(0, layout.world());
  const Coordinates at = coordinates(layout, rank);
  for (const Axis axis : every_axis) {
    RC_ASSERT(at.at(axis) >= 0 && at.at(axis) < layout.degree(axis));
  }
  RC_ASSERT(world_rank(layout, at) == rank);
}

RC_GTEST_PROP(Layout, GroupsOfAnAxisPartTheWorldAndDifferOnlyThere, ()) {
  const Layout layout = any_layout();
  const Axis axis =
      *rc::gen::elementOf(std::vector<Axis>(std::begin(every_axis), std::end(every_axis)));
  std::set<int> seen;
  for (const auto& group : groups(layout, axis)) {
    RC_ASSERT(static_cast<int>(group.size()) == layout.degree(axis));
    RC_ASSERT(std::is_sorted(group.begin(), group.end()));
    for (const int rank : group) {
      RC_ASSERT(seen.insert(rank).second);
      for (const Axis other : every_axis) {
        if (other == axis) continue;
        RC_ASSERT(coordinates(layout, rank).at(other) == coordinates(layout, group[0]).at(other));
      }
    }
  }
  RC_ASSERT(static_cast<int>(seen.size()) == layout.world());
}

std::vector<int> micro_batches_of(const char* layout, int micro_batches, int rank) {
  return owned_micro_batches(parse_layout(layout), micro_batches, rank);
}

TEST(Layout, MicroBatchSharesAreContiguousAndBalanced) {
  EXPECT_EQ(micro_batches_of("dp4", 4, 2), (std::vector<int>{2}));
  EXPECT_EQ(micro_batches_of("dp3", 4, 0), (std::vector<int>{0}));
  EXPECT_EQ(micro_batches_of("dp3.zero1", 4, 2), (std::vector<int>{2, 3}));
  EXPECT_TRUE(micro_batches_of("dp4", 2, 0).empty());
  EXPECT_TRUE(micro_batches_of("dp1", 0, 0).empty());
}

TEST(Layout, MicroBatchesAreDealtWhereEveryOneIsReduced) {
  EXPECT_EQ(micro_batches_of("dp2.zero2", 6, 1), (std::vector<int>{1, 3, 5}));
  EXPECT_EQ(micro_batches_of("dp4.zero3-shard2", 8, 0), (std::vector<int>{0, 2}));
  EXPECT_EQ(micro_batches_of("dp4.zero3-shard2", 8, 3), (std::vector<int>{5, 7}));
}

RC_GTEST_PROP(Layout, EveryMicroBatchHasOneOwner, ()) {
  Layout layout;
  layout.dp = *rc::gen::inRange(1, 9);
  layout.zero = *rc::gen::inRange(0, 4);
  if (layout.zero > 0 && layout.dp % 2 == 0 && *rc::gen::arbitrary<bool>()) layout.shard_group = 2;
  const int rounds = *rc::gen::inRange(0, 6);
  const int uneven = layout.zero < 2 ? *rc::gen::inRange(0, layout.dp) : 0;
  const int micro_batches = rounds * layout.dp + uneven;
  std::vector<int> all;
  for (int rank = 0; rank < layout.dp; ++rank) {
    const auto owned = owned_micro_batches(layout, micro_batches, rank);
    RC_ASSERT(std::is_sorted(owned.begin(), owned.end()));
    RC_ASSERT(static_cast<int>(owned.size()) >= rounds);
    RC_ASSERT(static_cast<int>(owned.size()) <= rounds + 1);
    all.insert(all.end(), owned.begin(), owned.end());
  }
  std::sort(all.begin(), all.end());
  RC_ASSERT(static_cast<int>(all.size()) == micro_batches);
  for (int m = 0; m < micro_batches; ++m) RC_ASSERT(all[static_cast<std::size_t>(m)] == m);
}

TEST(LayoutDeath, RanksOutsideTheWorldAreBugs) {
  EXPECT_DEATH(coordinates(Layout{.dp = 2}, 2), "rank 2 of 2");
  EXPECT_DEATH(world_rank(Layout{.dp = 2}, Coordinates{.dp = 2}), "dp 2 of 2");
  EXPECT_DEATH(owned_micro_batches(Layout{.dp = 2}, 4, 2), "rank 2 of 2");
}

}  // namespace
}  // namespace shardproof

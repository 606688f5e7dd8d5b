// ctest: unit
#include "mesh/placement.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/expect_error.h"

namespace shardproof {
namespace {

using Kind = AxisPlacement::Kind;

Placement query_weight() {
  return {"blocks.0.attn.q.weight",
          {32, 32},
          {16, 32},
          {{Axis::tensor, Kind::shard, 0}, {Axis::data, Kind::replicate, -1}}};
}

TEST(Placement, PrintsShapesAndAxes) {
  EXPECT_EQ(query_weight().print(),
            "blocks.0.attn.q.weight [32,32] -> [16,32] tp:shard(0) dp:replicate");
  Placement pieces = query_weight();
  pieces.axes[0].pieces = 4;
  EXPECT_EQ(pieces.print(),
            "blocks.0.attn.q.weight [32,32] -> [16,32] tp:shard(0, 4 pieces) dp:replicate");
  const Placement partial{"x", {}, {}, {{Axis::context, Kind::partial, -1}}};
  EXPECT_EQ(partial.print(), "x [] -> [] cp:partial");
}

TEST(Placement, LocalBoxOfAShard) {
  const Layout layout = parse_layout("dp2.tp2");
  EXPECT_EQ(local_box(query_weight(), layout, 2), (Box{{0, 0}, {16, 32}}));
  EXPECT_EQ(local_box(query_weight(), layout, 3), (Box{{16, 0}, {16, 32}}));
  // Five rows over three ranks: balanced bounds 0, 1, 3, 5.
  const Placement uneven{"w", {5}, {2}, {{Axis::data, Kind::shard, 0}}};
  EXPECT_EQ(local_box(uneven, parse_layout("dp3"), 0), (Box{{0}, {1}}));
  EXPECT_EQ(local_box(uneven, parse_layout("dp3"), 2), (Box{{3}, {2}}));
  // Four pieces of 61 rows (15, 15, 15, 16) over three ranks: one, one, two.
  const Placement pieces{"w", {61}, {15}, {{Axis::tensor, Kind::shard, 0, 4}}};
  EXPECT_EQ(local_box(pieces, parse_layout("tp3"), 1), (Box{{15}, {15}}));
  EXPECT_EQ(local_box(pieces, parse_layout("tp3"), 2), (Box{{30}, {31}}));
}

// The shards of all ranks tile the global tensor: every element is held once per combination of the
// coordinates that do not shard it.
RC_GTEST_PROP(Placement, ShardsTileTheTensor, ()) {
  Layout layout;
  layout.tp = *rc::gen::inRange(1, 4);
  layout.cp = *rc::gen::inRange(1, 4);
  layout.dp = *rc::gen::inRange(1, 4);
  Placement placement{"w", {*rc::gen::inRange(0, 7), *rc::gen::inRange(1, 7)}, {}, {}};
  std::vector<int> dims =
      *rc::gen::element(std::vector<int>{}, std::vector<int>{0}, std::vector<int>{1},
                        std::vector<int>{0, 1}, std::vector<int>{1, 0});
  const Axis axes[] = {Axis::tensor, Axis::data};
  int copies = layout.world();
  for (std::size_t i = 0; i < dims.size(); ++i) {
    placement.axes.push_back({axes[i], Kind::shard, dims[i]});
    copies /= layout.degree(axes[i]);
  }
  const auto columns = placement.global_shape[1];
  std::vector<int> held(static_cast<std::size_t>(placement.global_shape[0] * columns), 0);
  for (int rank = 0; rank < layout.world(); ++rank) {
    const Box box = local_box(placement, layout, rank);
    for (auto row = box.offsets[0]; row < box.offsets[0] + box.shape[0]; ++row) {
      for (auto column = box.offsets[1]; column < box.offsets[1] + box.shape[1]; ++column) {
        ++held.at(static_cast<std::size_t>(row * columns + column));
      }
    }
  }
  for (const int count : held) RC_ASSERT(count == copies);
}

TEST(Placement, ChecksTheRecordAndTheTensor) {
  const Layout layout = parse_layout("dp2.tp2");
  EXPECT_NO_THROW(check_placement(query_weight(), layout, 1, {16, 32}));
  expect_error(ErrorKind::mismatch,
               {"blocks.0.attn.q.weight", "the tensor is [32,16]", "expected [16,32]", "rank 1"},
               [&] {
                 check_placement(query_weight(), layout, 1, {32, 16});
               });
  Placement wrong = query_weight();
  wrong.local_shape = {32, 32};
  expect_error(ErrorKind::mismatch, {"the recorded local shape is [32,32]", "expected [16,32]"},
               [&] {
                 check_placement(wrong, layout, 1, {16, 32});
               });
}

TEST(PlacementDeath, ImpossiblePlacementsAreBugs) {
  const Layout layout = parse_layout("dp2.tp2");
  Placement placement = query_weight();
  placement.axes[1] = {Axis::data, Kind::shard, 0};
  EXPECT_DEATH(local_box(placement, layout, 0), "a dim sharded twice");
  placement.axes[1] = {Axis::data, Kind::shard, 2};
  EXPECT_DEATH(local_box(placement, layout, 0), "a dim out of range");
  placement.axes[1] = {Axis::tensor, Kind::replicate, -1};
  EXPECT_DEATH(local_box(placement, layout, 0), "an axis twice");
}

}  // namespace
}  // namespace shardproof

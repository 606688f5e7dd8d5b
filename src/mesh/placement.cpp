// placement: boxes from records, and records against what is there.
#include "mesh/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

std::string print(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

std::string print(const AxisPlacement& at) {
  switch (at.kind) {
    case AxisPlacement::Kind::replicate:
      return fmt::format("{}:replicate", short_name(at.axis));
    case AxisPlacement::Kind::partial:
      return fmt::format("{}:partial", short_name(at.axis));
    case AxisPlacement::Kind::shard:
      if (at.pieces == 0) return fmt::format("{}:shard({})", short_name(at.axis), at.dim);
      return fmt::format("{}:shard({}, {} pieces)", short_name(at.axis), at.dim, at.pieces);
  }
  SP_CHECK(false, "no such kind");
}

[[noreturn]] void disagree(const Placement& placement, int world_rank, std::string_view what,
                           const Shape& found, const Shape& expected) {
  throw Error(ErrorKind::mismatch, placement.name,
              fmt::format("rank {}: {} is {}; expected {} by {}", world_rank, what, print(found),
                          print(expected), placement.print()),
              world_rank);
}

}  // namespace

std::string Placement::print() const {
  std::string text = fmt::format("{} {} -> {}", name, shardproof::print(global_shape),
                                 shardproof::print(local_shape));
  for (const AxisPlacement& at : axes) text += " " + shardproof::print(at);
  return text;
}

Box local_box(const Placement& placement, const Layout& layout, int world_rank) {
  Box box{Shape(placement.global_shape.size(), 0), placement.global_shape};
  const Coordinates at = coordinates(layout, world_rank);
  std::vector<bool> sharded(box.shape.size(), false);
  std::vector<bool> seen(axis_count, false);
  for (const AxisPlacement& axis : placement.axes) {
    const auto number = static_cast<std::size_t>(axis.axis);
    SP_CHECK(!seen[number], "an axis twice: " + placement.print());
    seen[number] = true;
    if (axis.kind != AxisPlacement::Kind::shard) continue;
    SP_CHECK(axis.dim >= 0 && axis.dim < static_cast<int>(box.shape.size()),
             "a dim out of range: " + placement.print());
    const auto dim = static_cast<std::size_t>(axis.dim);
    SP_CHECK(!sharded[dim], "a dim sharded twice: " + placement.print());
    sharded[dim] = true;
    const std::int64_t size = placement.global_shape[dim];
    const auto bound = [&](int part) {
      const int parts = layout.degree(axis.axis);
      if (axis.pieces == 0) return share_bound(size, parts, part);
      const std::int64_t piece = share_bound(axis.pieces, parts, part);
      return share_bound(size, axis.pieces, static_cast<int>(piece));
    };
    box.offsets[dim] = bound(at.at(axis.axis));
    box.shape[dim] = bound(at.at(axis.axis) + 1) - box.offsets[dim];
  }
  return box;
}

void check_placement(const Placement& placement, const Layout& layout, int world_rank,
                     const Shape& real_shape) {
  const Box box = local_box(placement, layout, world_rank);
  if (placement.local_shape != box.shape) {
    disagree(placement, world_rank, "the recorded local shape", placement.local_shape, box.shape);
  }
  if (real_shape != box.shape) {
    disagree(placement, world_rank, "the tensor", real_shape, box.shape);
  }
}

}  // namespace shardproof

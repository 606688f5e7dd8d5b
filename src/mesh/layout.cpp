// layout: printing, coordinates and groups; layout_parse.cpp reads the text.
#include "mesh/layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "base/check.h"
#include "base/piece.h"

namespace shardproof {
namespace {

constexpr std::array<Axis, axis_count> all_axes = {Axis::tensor, Axis::context, Axis::expert,
                                                   Axis::data, Axis::pipeline};
int& coordinate(Coordinates& at, Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return at.tp;
    case Axis::context:
      return at.cp;
    case Axis::expert:
      return at.ep;
    case Axis::data:
      return at.dp;
    case Axis::pipeline:
      return at.pp;
  }
  SP_CHECK(false, "no such axis");
}

}  // namespace

std::string_view short_name(Axis axis) {
  switch (axis) {
    case Axis::tensor:
      return "tp";
    case Axis::context:
      return "cp";
    case Axis::expert:
      return "ep";
    case Axis::data:
      return "dp";
    case Axis::pipeline:
      return "pp";
  }
  SP_CHECK(false, "no such axis");
}

int Layout::degree(Axis axis) const {
  switch (axis) {
    case Axis::tensor:
      return tp;
    case Axis::context:
      return cp;
    case Axis::expert:
      return ep;
    case Axis::data:
      return dp;
    case Axis::pipeline:
      return pp;
  }
  SP_CHECK(false, "no such axis");
}

std::string Layout::print() const {
  std::vector<std::string> parts;
  if (dp > 1) parts.push_back(fmt::format("dp{}", dp));
  if (tp > 1) parts.push_back(fmt::format("tp{}", tp));
  if (sequence_parallel) parts.push_back("sp");
  if (cp > 1) {
    parts.push_back(fmt::format("cp{}", cp));
    if (context_kind != "ring") parts.back() += "-" + context_kind;
  }
  if (pp > 1) {
    parts.push_back(fmt::format("pp{}", pp));
    if (schedule != "1f1b") parts.back() += "-" + schedule;
  }
  if (ep > 1) parts.push_back(fmt::format("ep{}", ep));
  if (parts.empty()) parts.push_back("dp1");
  if (zero > 0) {
    parts.push_back(fmt::format("zero{}", zero));
    if (shard_group > 0) parts.back() += fmt::format("-shard{}", shard_group);
  }
  return fmt::format("{}", fmt::join(parts, "."));
}

int Coordinates::at(Axis axis) const {
  Coordinates copy = *this;
  return coordinate(copy, axis);
}

Coordinates coordinates(const Layout& layout, int world_rank) {
  SP_CHECK(world_rank >= 0 && world_rank < layout.world(),
           fmt::format("rank {} of {}", world_rank, layout.world()));
  Coordinates at;
  for (const Axis axis : all_axes) {
    coordinate(at, axis) = world_rank % layout.degree(axis);
    world_rank /= layout.degree(axis);
  }
  return at;
}

int world_rank(const Layout& layout, const Coordinates& at) {
  int rank = 0;
  for (auto axis = all_axes.rbegin(); axis != all_axes.rend(); ++axis) {
    SP_CHECK(at.at(*axis) >= 0 && at.at(*axis) < layout.degree(*axis),
             fmt::format("{} {} of {}", short_name(*axis), at.at(*axis), layout.degree(*axis)));
    rank = rank * layout.degree(*axis) + at.at(*axis);
  }
  return rank;
}

std::vector<std::vector<int>> groups(const Layout& layout, Axis axis) {
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < layout.world(); ++rank) {
    Coordinates at = coordinates(layout, rank);
    if (at.at(axis) != 0) continue;
    std::vector<int>& group = result.emplace_back();
    for (int i = 0; i < layout.degree(axis); ++i) {
      coordinate(at, axis) = i;
      group.push_back(world_rank(layout, at));
    }
  }
  return result;
}

std::string print_groups(const Layout& layout) {
  std::string text = fmt::format("{}: {} rank{}\n", layout.print(), layout.world(),
                                 layout.world() == 1 ? "" : "s");
  for (const Axis axis : all_axes) {
    text += fmt::format("{} {:>3}  ", short_name(axis), layout.degree(axis));
    if (layout.degree(axis) == 1) {
      text += "every rank alone\n";
      continue;
    }
    std::vector<std::string> shown;
    for (const auto& group : groups(layout, axis)) {
      shown.push_back(fmt::format("[{}]", fmt::join(group, " ")));
    }
    text += fmt::format("{}\n", fmt::join(shown, " "));
  }
  return text;
}

std::vector<int> owned_micro_batches(const Layout& layout, int micro_batches, int data_rank) {
  SP_CHECK(micro_batches >= 0 && data_rank >= 0 && data_rank < layout.dp,
           fmt::format("{} micro-batches, rank {} of {}", micro_batches, data_rank, layout.dp));
  const bool dealt = layout.zero >= 2;
  const int group = layout.shard_size();
  if (dealt) SP_CHECK_EQ(micro_batches % layout.dp, 0);
  const auto bound = [&](int rank) {
    return static_cast<int>(share_bound(micro_batches, layout.dp, rank));
  };
  const int first_rank = data_rank / group * group;
  const int begin = dealt ? bound(first_rank) + data_rank - first_rank : bound(data_rank);
  const int end = dealt ? bound(first_rank + group) : bound(data_rank + 1);
  std::vector<int> owned;
  for (int m = begin; m < end; m += dealt ? group : 1) owned.push_back(m);
  return owned;
}

}  // namespace shardproof

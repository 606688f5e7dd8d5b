// state_sums: a checksum a shard.
#include "train/state_sums.h"

#include <fmt/format.h>

#include "base/checksum.h"

namespace shardproof {
namespace {

std::string phrase(const ShardSum& shard, const PieceTable& table) {
  const PieceSpec& piece = table.pieces()[static_cast<std::size_t>(shard.piece_index)];
  return fmt::format("{} {}, piece {} of {}, elements {} to {}", shard.what, piece.name,
                     piece.piece, piece.pieces, shard.range.lo, shard.range.hi);
}

}  // namespace

StateSums state_sums(Plan& plan, const std::vector<std::string>& kinds) {
  StateSums out;
  for (const std::string& kind : kinds) {
    for (const StateShard& shard : plan.shards(kind, true)) {
      out.push_back(
          {kind, shard.piece_index, shard.range,
           checksum(shard.data, static_cast<std::size_t>(shard.range.size()) * sizeof(float))});
    }
  }
  return out;
}

std::uint64_t digest_of(const StateSums& sums, const PieceTable& table, bool whole_only) {
  std::uint64_t out = 0;
  for (const ShardSum& shard : sums) {
    if (whole_only && table.pieces()[static_cast<std::size_t>(shard.piece_index)].pieces > 1) {
      continue;
    }
    out = checksum(&shard.sum, sizeof shard.sum, out);
  }
  return out;
}

std::string first_difference(const StateSums& before, const StateSums& now,
                             const PieceTable& table) {
  for (std::size_t i = 0; i < now.size(); ++i) {
    const bool same = i < before.size() && before[i].what == now[i].what &&
                      before[i].piece_index == now[i].piece_index &&
                      before[i].range == now[i].range && before[i].sum == now[i].sum;
    if (!same) return phrase(now[i], table);
  }
  return now.size() == before.size() ? "" : "the list of pieces";
}

}  // namespace shardproof

// parameter_placement: from pieces to records, and pieces put together against them.
#include "parallel/parameter_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace shardproof {
namespace {

std::map<std::string, Shape> side_by_side(const std::vector<HeldPiece>& held) {
  std::map<std::string, Shape> out;
  for (const HeldPiece& piece : held) {
    const auto [at, fresh] = out.emplace(piece.name, piece.shape);
    if (fresh) continue;
    const auto dim = static_cast<std::size_t>(std::max(0, piece.dim));
    Shape other = piece.shape;
    other.at(dim) += at->second.at(dim);
    at->second = std::move(other);
  }
  return out;
}

}  // namespace

std::vector<Placement> parameter_placements(const Layout& layout, const GptShape& shape,
                                            int world_rank) {
  using Kind = AxisPlacement::Kind;
  std::vector<Placement> records;
  const PieceTable table(gpt_pieces(shape));
  for (const PieceSpec& piece : table.pieces()) {
    if (piece.piece > 0) continue;
    Placement record{piece.name, piece.global_shape, {}, {}};
    AxisPlacement tensor{Axis::tensor, Kind::replicate, -1, 0};
    if (piece.pieces > 1) tensor = {Axis::tensor, Kind::shard, piece.dim, piece.pieces};
    record.axes = {
        tensor, {Axis::context, Kind::replicate, -1, 0}, {Axis::data, Kind::replicate, -1, 0}};
    record.local_shape = local_box(record, layout, world_rank).shape;
    records.push_back(std::move(record));
  }
  return records;
}

void check_parameters(const Layout& layout, const GptShape& shape,
                      const std::vector<LayerRange>& layers, int world_rank,
                      const std::vector<HeldPiece>& held) {
  auto found = side_by_side(held);
  for (const Placement& record : parameter_placements(layout, shape, world_rank)) {
    const bool here = std::ranges::any_of(
        layers, [&](const LayerRange& stage) { return holds(stage, shape, record.name); });
    if (!here) continue;
    const auto at = found.find(record.name);
    if (at == found.end()) {
      throw Error(ErrorKind::mismatch, record.name,
                  fmt::format("rank {}: there is no tensor; expected [{}] by {}", world_rank,
                              fmt::join(record.local_shape, ","), record.print()),
                  world_rank);
    }
    check_placement(record, layout, world_rank, at->second);
    found.erase(at);
  }
  if (found.empty()) return;
  const auto& [name, extra] = *found.begin();
  throw Error(ErrorKind::mismatch, name,
              fmt::format("rank {}: a tensor [{}]; expected none: other stages hold its layer",
                          world_rank, fmt::join(extra, ",")),
              world_rank);
}

}  // namespace shardproof

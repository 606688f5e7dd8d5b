// parameter_placement: from pieces to records.
#include "parallel/parameter_placement.h"

namespace shardproof {

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

}  // namespace shardproof

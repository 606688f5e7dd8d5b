// units: pieces sorted into units by the layer in their name.
#include "parallel/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"

namespace shardproof {
namespace {

bool in_embedding(const std::string& name) {
  return name.starts_with("embed.") || name.starts_with("pos.");
}

// The layer of a parameter: of its block; the embedding comes before layer 0, the head after the
// last.
int layer_of(const std::string& name, int layers) {
  if (in_embedding(name)) return -1;
  return block_of(name).value_or(layers);
}

std::string unit_name(int chunk, int first, int last, int layers, int unit_layers) {
  if (unit_layers == 0) return fmt::format("chunk {}", chunk);
  if (first < 0) return "embedding";
  if (first >= layers) return "head";
  return first + 1 == last ? fmt::format("block {}", first)
                           : fmt::format("blocks {}-{}", first, last - 1);
}

}  // namespace

std::vector<UnitSpec> units_of(const GptShape& shape, const std::vector<int>& tensor_pieces,
                               const std::vector<LayerRange>& chunks, int unit_layers) {
  SP_CHECK_LE(0, unit_layers);
  std::map<int, std::vector<PieceSpec>> by_layer;
  std::vector<PieceSpec> tied;
  for (const PieceSpec& piece : gpt_pieces(shape)) {
    if (piece.pieces > 1 && std::ranges::find(tensor_pieces, piece.piece) == tensor_pieces.end()) {
      continue;
    }
    const bool is_tied = shape.tied && piece.name == tied_weight;
    (is_tied ? tied : by_layer[layer_of(piece.name, shape.layers)]).push_back(piece);
  }
  std::vector<UnitSpec> units;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    const int chunk = static_cast<int>(c);
    // Layers with the ends of the model counted as layers of their own.
    const int begin = chunks[c].first == 0 ? -1 : chunks[c].first;
    const int end = chunks[c].last == shape.layers ? shape.layers + 1 : chunks[c].last;
    if (shape.tied && begin < 0) {
      units.push_back({"tied embedding", chunk, PieceTable(tied), true, 0, false});
    }
    for (int first = begin; first < end;) {
      int last = end;
      if (unit_layers > 0) {
        const bool inside = first >= 0 && first < shape.layers;
        last = inside ? std::min(first + unit_layers, chunks[c].last) : first + 1;
      }
      std::vector<PieceSpec> pieces;
      for (int layer = first; layer < last; ++layer) {
        const auto& of_layer = by_layer[layer];
        pieces.insert(pieces.end(), of_layer.begin(), of_layer.end());
      }
      units.push_back({unit_name(chunk, first, last, shape.layers, unit_layers), chunk,
                       PieceTable(std::move(pieces)), false, 0, last > 0});
      first = last;
    }
    if (shape.tied && end > shape.layers) {
      units.push_back({"tied head", chunk, PieceTable(tied), true, 1});
    }
  }
  return units;
}

}  // namespace shardproof

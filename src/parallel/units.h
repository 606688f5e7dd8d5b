// units: how a rank's pieces are grouped. A unit is reduced, owned in shares, updated and gathered
// as one (what FSDP calls wrapping). Where nothing is resharded a whole model chunk is one unit;
// where gradients or parameters are sharded during the step, a unit is the embedding, a group of
// blocks, or the head. Pure; torch-free.
#pragma once

#include <string>
#include <vector>

#include "base/piece.h"
#include "model/gpt_shape.h"
#include "parallel/stage_layers.h"

namespace shardproof {

struct UnitSpec {
  std::string name;  // "chunk 0", "embedding", "blocks 0-1", "head"; "tied embedding", "tied head"
  int chunk = 0;
  PieceTable table;   // what this rank holds of it
  bool tied = false;  // holds the embedding's weight that the head uses too
  // Which use of its parameters (Site::use): 1 for the head's use of a tied embedding, whose unit
  // has gradients of its own but no state.
  int use = 0;
  bool used_in_backward = true;  // the embedding's parameters are not
};

// The units of a rank in the order of a forward pass: chunks ascending, then embedding, blocks,
// head. `tensor_pieces`: those this rank owns. The chunk that starts at layer 0 holds the
// embedding, the one that ends at the last layer the head. `unit_layers`: blocks of a unit; 0: a
// chunk is one unit. A tied embedding's weight is a unit of its own, first where the embedding is
// and last where the head is.
std::vector<UnitSpec> units_of(const GptShape& shape, const std::vector<int>& tensor_pieces,
                               const std::vector<LayerRange>& chunks, int unit_layers);

}  // namespace shardproof

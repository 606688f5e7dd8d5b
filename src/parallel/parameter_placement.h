// parameter_placement: a record for every parameter of a model: what of it a rank of a layout
// computes with. The tensor axis cuts along the dim of gpt_shape.h, whole pieces to a rank; q, k
// and v are three parameters, so that any degree splits them alike; context and data ranks hold the
// same values, and sequence parallelism cuts activations alone.
// Every plan holds what it has made against the records before its first step.
// Not recorded: optimizer state and sharded storage (ZeRO), which are runs of blocks (base/piece.h)
// that no dim describes, and which stage of a pipeline holds a parameter. Pure; torch-free.
#pragma once

#include <string>
#include <vector>

#include "mesh/layout.h"
#include "mesh/placement.h"
#include "model/gpt_shape.h"
#include "parallel/stage_layers.h"

namespace shardproof {

// In the order of names.
std::vector<Placement> parameter_placements(const Layout& layout, const GptShape& shape,
                                            int world_rank);

// A tensor that a rank's model computes with: one piece of a parameter.
struct HeldPiece {
  std::string name;
  int dim = -1;  // along which pieces lie side by side; -1: the parameter is one piece
  Shape shape;
};

// The pieces of each parameter of these layers are there, side by side, in the local shape that the
// record says, and nothing else is. Error mismatch naming parameter, rank, expected and found.
void check_parameters(const Layout& layout, const GptShape& shape,
                      const std::vector<LayerRange>& layers, int world_rank,
                      const std::vector<HeldPiece>& held);

}  // namespace shardproof

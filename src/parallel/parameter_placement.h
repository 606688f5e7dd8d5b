// parameter_placement: a record for every parameter of a model: what of it a rank of a layout
// computes with. The tensor axis cuts along the dim of gpt_shape.h, whole pieces to a rank; q, k
// and v are three parameters, so that any degree splits them alike; context and data ranks hold the
// same values, and sequence parallelism cuts activations alone.
// Not recorded: optimizer state and sharded storage (ZeRO), which are runs of blocks (base/piece.h)
// that no dim describes, and which stage of a pipeline holds a parameter. Pure; torch-free.
#pragma once

#include <vector>

#include "mesh/layout.h"
#include "mesh/placement.h"
#include "model/gpt_shape.h"

namespace shardproof {

// In the order of names.
std::vector<Placement> parameter_placements(const Layout& layout, const GptShape& shape,
                                            int world_rank);

}  // namespace shardproof

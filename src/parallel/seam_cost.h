// seam_cost: the calls that a model's exchanges over the tensor, the context and the pipeline axis
// make on one rank, in order, and the bytes they send: from shapes alone, apart from the code that
// sends (mesh_seams.*, ulysses.*, stage_link.*), with which tests compare it. One call of a list is
// one micro-batch through the layers of one model chunk; nothing is recomputed. Where every rank
// owns one subtree and shares are equal, the bytes are those of the ring formulas for B bytes on k
// ranks: a tensor sum 2B(k-1)/k, under sp B(k-1)/k, as a gather; Ulysses B(k-1)/k. A stage sends B
// forward and B backward.
// Torch-free. Pure.
#pragma once

#include <vector>

#include "comm/cost.h"
#include "mesh/layout.h"
#include "model/gpt_shape.h"
#include "parallel/stage_layers.h"

namespace shardproof {

struct SeamCalls {
  std::vector<PredictedCall> tensor;
  std::vector<PredictedCall> context;
  std::vector<PredictedCall> pipeline;  // a message for each sequence piece of the residual stream
};

// Precondition: the layout is legal (legality.h). rows: of the micro-batch.
SeamCalls predicted_forward(const Layout& layout, const GptShape& shape, const LayerRange& layers,
                            int rows, int world_rank, CommBackend backend);
SeamCalls predicted_backward(const Layout& layout, const GptShape& shape, const LayerRange& layers,
                             int rows, int world_rank, CommBackend backend);

}  // namespace shardproof

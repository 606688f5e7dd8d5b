// step_cost: the calls that a step makes for gradients, parameters and scalars on one rank, by
// group, and the bytes they send: from shapes alone, apart from the code that sends
// (mesh_parallel.*, unit.*, sequence_sum.*, batch_sum.*, parameter_flow.*), with which tests
// compare it. What the model itself exchanges is in seam_cost.h. Canonical reduction. Where every
// rank owns one subtree and shares are equal, the bytes are those of the ring formulas for B bytes
// on k ranks: ZeRO 0 2B(k-1)/k; ZeRO 1 B(k-1)/k of gradients and as much of parameters; ZeRO 2 the
// same for gradients of every micro-batch; ZeRO 3 also gathers every unit for every pass.
// Torch-free. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/cost.h"
#include "mesh/layout.h"
#include "model/gpt_shape.h"

namespace shardproof {

// By the group's label: "dp", "cp", "shard", "replica", "sequence", "state", "gather", "all".
using GroupCalls = std::map<std::string, std::vector<PredictedCall>>;

// Precondition: the layout is legal (legality.h), without pipeline stages and tied weights; ZeRO 3
// gathers one unit ahead or more.
GroupCalls predicted_step(const Layout& layout, const GptShape& shape, int micro_batches,
                          int unit_layers, int world_rank, CommBackend backend);

}  // namespace shardproof

// mesh_parallel: the plan of dp x tp (+sp) x cp x pp with any ZeRO stage. A rank holds the pieces
// of its tensor coordinate in the layers of its pipeline stage, in units (unit.h); parameters that
// are not cut are on every tensor rank, and each of them updates them with the same bits.
// Gradients: leaves meet in tree(S) as far as the rank owns them; at the end of a micro-batch a
// canonical reduce-scatter over cp leaves each context rank its share of the sum over S (under sp,
// gradients of whole parameters are summed over cp x tp instead); shares of micro-batches meet in
// tree(M) and over dp: once a step (ZeRO 0 and 1), or after every micro-batch (ZeRO 2 and 3).
// State shares: contiguous runs of whole blocks of a unit over the cp x F ranks of its shard group
// (F = dp, or the shard group of hybrid sharding). Stage 0 gathers the gradient over them, 1 and 2
// the parameters after the update, 3 the parameters of a unit while the model uses it.
// Optimizer state, and the shares of stage 3, may be offloaded (offload.h): one window of one
// unit's optimizer state is on the device at a time, and no share but within gathered buffers.
// Every element counts once in the norm: whole parameters on tensor rank 0.
#pragma once

#include <memory>

#include "mesh/mesh.h"
#include "parallel/plan.h"
#include "parallel/plan_options.h"

namespace shardproof {

// Precondition: the layout is legal for the shape (legality.h).
std::unique_ptr<Plan> make_mesh_parallel(Mesh& mesh, const PlanOptions& options);

}  // namespace shardproof

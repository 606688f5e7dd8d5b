// mesh_parallel: the plan of dp x tp (+sp) x cp with ZeRO stage 0 or 1. A rank holds the pieces of
// its tensor coordinate; parameters that are not cut are on every tensor rank, and each of them
// updates them with the same bits.
// Gradients: leaves meet in tree(S) as far as the rank owns them; at the end of a micro-batch a
// canonical reduce-scatter over cp leaves each context rank its share of the sum over S (under sp,
// gradients of whole parameters are summed over cp x tp instead); shares of micro-batches meet in
// tree(M), and a canonical reduce-scatter over dp ends the step.
// State shares: contiguous runs of whole blocks of the rank's pieces over the R = cp x dp ranks
// with its tensor coordinate. Stage 0 gathers the gradient over them, stage 1 the parameters.
// Every element counts once in the norm: whole parameters on tensor rank 0.
#pragma once

#include <memory>

#include "parallel/data_parallel.h"

namespace shardproof {

// Also right, but slower than make_data_parallel, where dp is the only axis.
std::unique_ptr<Plan> make_mesh_parallel(Mesh& mesh, const DataParallelOptions& options);

}  // namespace shardproof

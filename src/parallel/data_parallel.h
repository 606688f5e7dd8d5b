// data_parallel: the plan of data-parallel replicas with ZeRO stage 0 or 1 (Rajbhandari et al.,
// "ZeRO", 2020). Stage 0: canonical all-reduce of gradients, every rank updates everything. Stage
// 1: canonical reduce-scatter, AdamW on the owned share (fp32 masters), all-gather of parameters.
// Shares are contiguous runs of 1,024-element blocks (PieceTable::share); the exact share 12P/R and
// what a rank holds above it are counted apart.
#pragma once

#include <memory>

#include "mesh/mesh.h"
#include "parallel/plan.h"

namespace shardproof {

struct DataParallelOptions {
  GptShape shape;
  int micro_batches = 4;  // M
  int zero = 0;           // 0 | 1
  std::uint64_t seed = 0;
};

std::unique_ptr<Plan> make_data_parallel(Mesh& mesh, const DataParallelOptions& options);

}  // namespace shardproof

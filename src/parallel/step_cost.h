// step_cost: all calls that a step makes on one rank, by group, and the bytes they send, on every
// dense layout, canonical and native: from shapes, the layout and the schedule alone, apart from
// the code that sends (mesh_parallel.*, native_data_parallel.*, step_scalars.*), with which tests
// compare it. It composes seam_cost.h (the model's exchanges), unit_cost.h (gradients and
// parameters) and gather_cost.h (ZeRO 3).
// Where every rank owns one subtree and shares are equal, the bytes of canonical reduction are
// those of the ring formulas for B bytes on k ranks: ZeRO 0 2B(k-1)/k; ZeRO 1 B(k-1)/k of gradients
// and as much of parameters; ZeRO 2 the same for gradients of every micro-batch; ZeRO 3 also
// gathers every unit for every pass. Native reduction always.
// The calls of a group are not in the order of time. Torch-free. Pure.
#pragma once

#include "parallel/unit_cost.h"

namespace shardproof {

// `rows`: of every micro-batch. Precondition: the layout is legal (legality.h).
GroupCalls predicted_step(const Layout& layout, const PlanOptions& options, int rows,
                          int world_rank, CommBackend backend);

std::uint64_t bytes_of(const GroupCalls& calls);

}  // namespace shardproof

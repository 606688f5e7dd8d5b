// state_trace: a plan's tensors and memory as events of the public trace. Every tensor is a run of
// whole blocks of a piece, so that differently cut shards have the same block digests.
// Thread rule: as the plan.
#pragma once

#include <cstdint>
#include <string>

#include "parallel/plan.h"
#include "trace/writer.h"
#include "train/memory_ledger.h"

namespace shardproof {

// `what`: "grad" (reduced, before clipping), "param" (all this rank holds) or "moment" (masters and
// both moments). Nothing happens at steps for which the trace wants no tensors.
void trace_state(TraceWriter& trace, Plan& plan, std::int64_t step, const std::string& what);

// {"kind":"memory","phase":"optimizer"}: bytes counted from the plan's buffers, and what the ledger
// (may be null) saw of LibTorch's allocator, live and at its peak since the last step. Where state
// is offloaded, also what moved in this step: `moved`.
void trace_memory(TraceWriter& trace, const Plan& plan, const MemoryLedger* ledger,
                  const OffloadLedger& moved, std::int64_t step);

}  // namespace shardproof

// trace_checks: verdicts computed from traces alone, so they hold for any trainer that writes one.
// Nothing captured, or one side missing, is inconclusive, never pass. Each function fills check,
// sentence, outcome, reason and difference; the caller adds subject and replay.
// Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "invariants/compare.h"
#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

// Steps done = asked on every rank, loss moves, gradient norm > 0, every parameter has a gradient.
Verdict check_live(const Trace& trace, std::int64_t steps_asked);
// The places of all ranks tile each global tensor; overlapping places are bit-equal; at every step.
Verdict check_cover(const Trace& trace);
// Parameters, grad_norm, loss and lr are bit-identical on all ranks after every step.
Verdict check_replicas(const Trace& trace);
// Two runs of one Run: the same bits everywhere.
Verdict check_repeat(const Trace& first, const Trace& second);
// Scalars, gradients, parameters and moments of every step equal the reference's, bit for bit.
Verdict check_layout(const Trace& reference, const Trace& trace);
// `resumed` starts at `from`; every step it did equals the uncut run's, at least 2 steps.
Verdict check_resume(const Trace& uncut, const Trace& resumed, std::int64_t from);
// Sample ids: exact cover of each epoch, disjoint over data ranks, the same global batch per step.
Verdict check_data(const Trace& trace);
// Recomputes clip and AdamW of captured consecutive steps from the traced gradients and state by an
// independent implementation: factor = min(1, max_norm/(norm+1e-6)), norm of the gradients, moments
// and parameters, all within 4 roundings per element.
Verdict check_optimizer(const Trace& trace);
// loss[i+1] <= loss[i] + slack and last <= ratio x first.
Verdict check_loss_falls(const Trace& trace, double slack, double ratio);
// Mean loss of the last quarter below that of the first.
Verdict check_loss_falls_by_quarters(const Trace& trace);
// Per-rank optimizer bytes = exact share (12 P / R) + what block granularity adds, and the adds are
// less than one block (12,288 bytes) a rank... as the trace's memory events say.
Verdict check_optimizer_bytes(const Trace& trace);
// harness.jsonl names the killed rank and the place before the deadline; no rank ended.
Verdict check_kill(const Trace& trace, int rank, std::int64_t step, const std::string& phase,
                   double deadline_seconds);

}  // namespace shardproof

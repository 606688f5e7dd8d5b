// trace_checks: verdicts computed from traces alone, so they hold for any trainer that writes one.
// Nothing captured, or one side missing, is inconclusive, never pass. Each function fills check,
// sentence, outcome, reason and difference; the caller adds subject and replay.
// What is read beyond the kinds of the public format, each where the trace has it:
//   run event   "coords" {"dp":..,"tp":..}  ranks that differ in dp alone are replicas (absent:
//   all)
//               "layout" "dp4.zero1"        what the run claims about sharing optimizer state
//               "config" {...}              the resolved config (learning rate, AdamW, clip, batch)
//               "tensors" "all"             every tensor of every step is traced
//               "match" "REGEX"             only tensors of these names are; what a sum over all
//                                           tensors needs is then undecided, not wrong
//               "code", "frozen" [names], "data" {"size": samples in an epoch}; of a mixture also
//               {"sources": [{"name", "first" id, "size", "weight"}]}, ids one source after another
//   memory      "bytes" {"optimizer": live bytes of masters and moments}
// Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "invariants/compare.h"
#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

// Steps done = asked on every rank, one run per file, loss moves and is finite, gradient norm > 0,
// every parameter has a gradient that is not all zero, or is listed as frozen.
Verdict check_live(const Trace& trace, std::int64_t steps_asked);
// The places of all ranks tile each global tensor; overlapping places are bit-equal; at every step
// every parameter has its value, its gradient and both moments (not the last three where frozen),
// its fp32 master too where any is traced, and no parameter appears after the first traced step.
// A kind that is missing whole, or a step, fails a trace that says it traces all tensors, and
// leaves any other inconclusive: it may not have been captured.
Verdict check_cover(const Trace& trace);
// Parameters, grad_norm, loss and lr are bit-identical on all ranks after every step.
Verdict check_replicas(const Trace& trace);
// Two runs of one Run: the same bits everywhere.
Verdict check_repeat(const Trace& first, const Trace& second);
// Scalars, gradients, parameters and moments of every step equal the reference's, bit for bit.
// Where a trace says that its reduction is native, bits are demanded of the same layout, backend
// and numerics alone, else the declared tolerance of compare_native.h, and a note says so.
Verdict check_layout(const Trace& reference, const Trace& trace);
// Where the bits may depend on the layout (native reduction): at each step of `truth`, the weights
// before it are the same bits, the samples the same, the loss within native_loss(), and each
// gradient no farther from the truth than native_gradients() allows beside the references
// (compare_errors.h). The truth is one rank in float64 and there is a reference in float32, or more
// of them with other shapes; or, without float64, the truth is the reference layout and the
// references three benign runs of it (reversed samples, other accumulation, repeat), and a note
// says so.
// The first note is the worst ratio with its tensor and element.
inline constexpr const char* native_layout_check = "native layout";
Verdict check_native_layout(const Trace& truth, const std::vector<const Trace*>& references,
                            const Trace& trace);
// The scalars alone: those that both sides have are equal at every step, bit for bit; of imports,
// whose digits must be as many, as printed. Says nothing about tensors, and notes that. A scalar
// that only one side has leaves it inconclusive; one that neither has is noted.
Verdict check_scalars(const Trace& reference, const Trace& trace);
// `resumed` starts at `from` and goes to the uncut run's end; every step it did equals the uncut
// run's, at least 2 steps.
Verdict check_resume(const Trace& uncut, const Trace& resumed, std::int64_t from);
// Sample ids: exact cover of each epoch, disjoint over data ranks, the same number of real samples
// (fillers are none) per step: the config's global batch where the trace has it. Fewer are legal
// where they end an epoch and the config does not say that such a batch is dropped.
// Of a mixture each source has epochs of its own, and is taken by its weight (mixture_walk.h).
// A trace that begins at a later step (a resumed one) is judged behind the steps of `before`, or
// from the place in its epoch that follows from the step where config and data size are known.
Verdict check_data(const Trace& trace, const Trace* before = nullptr);
// Recomputes clip, learning rate and AdamW of captured consecutive steps from the traced gradients
// and state by an independent implementation in double: norm of the gradients, factor =
// min(1, max_norm/(norm+1e-6)), moments and parameters. Bounds count fp32 roundings, u = 2^-24:
// moments 8 u x (sum of the terms' magnitudes), parameters u |w| + 16 u x |update|.
Verdict check_optimizer(const Trace& trace);
// loss[i+1] <= loss[i] + slack and last <= ratio x first.
Verdict check_loss_falls(const Trace& trace, double slack, double ratio);
// Mean loss of the last quarter <= ratio x that of the first.
Verdict check_loss_falls_by_quarters(const Trace& trace, double ratio);
// Every step trains on the same samples, and the last loss is at most `share` x ln(vocabulary).
Verdict check_overfit(const Trace& trace, int vocabulary, double share);
// The optimizer bytes of the ranks that share a state add up to 12 P, and each rank holds its exact
// share (12 P / R) up to less than one block (12,288 bytes), as the trace's memory events say.
Verdict check_optimizer_bytes(const Trace& trace);
// A finished save of checkpoint `id`, and a `verify` event in harness.jsonl with exit code 0.
Verdict check_verified(const Trace& trace, const std::string& id);
// harness.jsonl names the killed rank before the deadline; its own last line is the place; no rank
// wrote `end`.
Verdict check_kill(const Trace& trace, int rank, std::int64_t step, const std::string& phase,
                   double deadline_seconds);

}  // namespace shardproof

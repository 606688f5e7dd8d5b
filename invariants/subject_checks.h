// subject_checks: the verdicts over the traces of a program that is not ours. Such a program keeps
// to the public format alone: it captures tensors at some steps, its optimizer may be any, and its
// bits may depend on the layout. Nothing captured, or one side missing, is inconclusive, never
// pass. Each function fills check, sentence, outcome, reason, difference and notes; the caller adds
// subject and replay. Torch-free. Thread rule: pure functions of their arguments.
// Beside these: check_repeat of trace_checks.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "invariants/trace_checks.h"

namespace shardproof {

// Legs that start from the same weights. They are judged at their first step: later ones have other
// weights.
struct SameStart {
  const Trace* truth = nullptr;          // float64 leg; without one, the reference layout
  std::vector<const Trace*> references;  // the reference in its own precision; without a float64
                                         // leg, the benign runs
  const Trace* found = nullptr;
};

// "layout": from the same weights (equal as values) and samples, each gradient is no farther from
// the truth than 4 x what the references are, or u x its norm (u = 2^-24 fp32; 2^-9 bf16, a weaker
// tier, said in a note); loss and grad_norm of every rank are the truth's up to what that allows.
// Without a float64 leg the spread of three benign runs is allowed, said in a note. Of a tensor of
// few elements, whose reference may be right by luck, the reference's error over all tensors
// counts. References that start elsewhere, or are off by more than rounding, decide nothing. Each
// start must be decided: one that is not leaves the verdict inconclusive, so pass those alone that
// can be.
Verdict check_subject_layout(const std::vector<SameStart>& starts);
// "layout" where the program claims the reference's bits: all that both captured, every step.
Verdict check_subject_bitwise(const Trace& reference, const Trace& found);
// "cover" at the start and at each captured step: boxes tile, replicas are bit-equal, and a
// parameter, gradient or moment that is there at one of them is at all (but at skipped steps). A
// rank that captured nothing leaves it inconclusive. `captured`: the steps
// that were asked for; empty: those that the trace has.
Verdict check_subject_cover(const Trace& trace, const std::vector<std::int64_t>& captured);
// "live": check_live, and what the program says is global (loss, grad_norm, lr) is equal on all
// ranks, and `code` is the same as in `others`.
Verdict check_subject_live(const Trace& trace, std::int64_t steps,
                           const std::vector<const Trace*>& others);
// "resume": `resumed` starts at `from` and is bitwise the uncut run for at least 2 steps.
Verdict check_subject_resume(const Trace& uncut, const Trace& resumed, std::int64_t from);
// "data": check_data; where the trace does not say how many samples an epoch has, what can be known
// without: no sample twice in a step, disjoint over data ranks, equal in model-parallel groups.
Verdict check_subject_data(const Trace& trace, const Trace* before);
// "kill": the job ended by itself before its deadline (`exit` of harness.jsonl), not as if nothing
// had happened, left no process, and the victim's last `at` is the place.
Verdict check_subject_kill(const Trace& trace, int rank, std::int64_t step,
                           const std::string& phase);

}  // namespace shardproof

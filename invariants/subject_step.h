// subject_step: what a program's optimizer made of gradients that were found right: the moments and
// the parameters after a step, by the error rule of compare_errors.h, and coarsely the steps behind
// it. What a side did not capture is not judged; that replicas agree and nothing is lost is
// check_subject_cover's to say. Torch-free. Thread rule: pure functions of their arguments.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "invariants/ruling.h"
#include "trace/reader.h"

namespace shardproof {

// Legs that start from the same weights and samples, and the step to judge.
struct StepSides {
  const Trace& truth;
  const std::vector<const Trace*>& references;
  const Trace& found;
  std::int64_t step = 0;
};

// How much was compared.
struct StepMade {
  std::int64_t moments = 0;
  std::int64_t updates = 0;
};

Ruling judge_moments(const StepSides& sides, StepMade& made);
// Of parameters whose gradient is `noise` the update's direction is noise too: not judged.
Ruling judge_updates(const StepSides& sides, const std::set<std::string>& noise, StepMade& made);
// Learning rate and `skipped` of every step that both sides have, and how far loss and gradient
// norm drift in the steps behind the judged one.
Ruling judge_later(const StepSides& sides);

}  // namespace shardproof

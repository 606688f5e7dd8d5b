// native_legs: what stands for the bits of one rank under native reduction: legs on one rank
// (lone_leg.h) that take gradients from the main leg's own weights in float64 and float32, and the
// verdict over them. Thread rule: pure functions.
#pragma once

#include <string>
#include <vector>

#include "harness/leg.h"
#include "invariants/verdict.h"

namespace shardproof {

// In float64, in float32, and where the layout cuts tensors in float32 cut like it: at the steps at
// which `main` captured both the gradients and the weights before them.
std::vector<Leg> lone_legs(const Leg& main);

// The legs that the verdict reads, the main one last.
std::vector<std::string> native_legs(const Config& config);
// check_native_layout over them; `config` is the main leg's.
Verdict judge_native_layout(const Config& config, const Traces& traces);

}  // namespace shardproof

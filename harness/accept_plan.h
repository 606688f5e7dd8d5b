// accept_plan: what an acceptance run will do and what it expects, as data, before anything runs:
// the corpora, the legs of each, and the verdicts with the legs they judge.
// Thread rule: values; pure functions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/leg.h"
#include "invariants/verdict.h"

namespace shardproof {

enum class LossRule { every_step, quarters, none };

// One Case to be proven.
struct Corpus {
  std::string name;  // "synthetic", "text", "replay": also its folder
  Config config;     // layout and backend of the main leg
  LossRule loss = LossRule::none;
  bool kill = false;  // also: a rank killed on MPI processes
  int kill_rank = 2;
  std::int64_t kill_step = 0;
  std::string kill_phase = "backward";
  bool faults = false;  // also: the scenarios of accept_faults.h

  std::int64_t checkpoint_step() const { return config.training.steps / 2; }
  // Bits may depend on the layout: the error model stands for equality with one rank.
  bool native() const { return config.numerics.reduction == "native"; }
};

struct PlannedVerdict {
  std::string subject;
  std::vector<std::string> legs;
  std::function<Verdict(const Traces&)> judge;  // on empty traces: inconclusive, with its sentence
};

inline constexpr double kill_deadline_seconds = 10;

// The Run that `replay` takes to prove this corpus: the main leg, and its kill where there is one.
Config run_of(const Corpus& corpus);
// Error bad_input when the run is too short to be cut in two.
void check_corpus(const Corpus& corpus);
// In the order in which they run. `checkpoints` is the folder of all checkpoint folders.
std::vector<Leg> plan_legs(const Corpus& corpus, const std::string& checkpoints);
std::vector<PlannedVerdict> plan_verdicts(const Corpus& corpus);
// {"corpus", "check", "subject", "legs", "expected"} per verdict.
Json expectations(const std::vector<Corpus>& corpora);

}  // namespace shardproof

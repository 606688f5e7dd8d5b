// continued: the deepest way to verify a checkpoint: fresh thread ranks continue it for some steps,
// on its own layout or on another, and every step is compared with the trace of the run that wrote
// it. The checkpoint is only read. Thread rule: one at a time.
#pragma once

#include <string>

#include "invariants/verdict.h"
#include "train/config.h"

namespace shardproof {

struct Continuation {
  std::string directory;  // of checkpoints
  std::string id;
  std::string trace;   // of the run that wrote it, with digests of its tensors
  int steps = 2;       // how far; at least 2, since lost moments show in the second step
  std::string layout;  // empty: the checkpoint's own
};

// The config on another layout, with what belongs to the layout left to it.
Config on_layout(Config config, const std::string& layout);

// For a drill: every byte and fact verified, then so many steps (`trace` is not read). Error as the
// checkpoint's damage or its resume has it, or of a step.
struct DrillResult;
DrillResult continue_for_drill(const Continuation& what);

// Verdict `resume`; inconclusive where the trace cannot say. Error bad_input: fewer than 2 steps,
// an illegal layout; refused: native reduction on MPI processes, whose bits threads do not have.
Verdict continue_checkpoint(const Continuation& what);

}  // namespace shardproof

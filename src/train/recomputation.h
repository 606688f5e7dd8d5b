// recomputation: whether, and from what, a state can be computed again: by training from the run's
// beginning, which is its seeds or the weights of its warm start. For checkpoints that keep seeds
// alone. Torch-free but for Plan. Thread rule: the rank's thread.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/manifest.h"
#include "parallel/plan.h"

namespace shardproof {

class Communicator;

// Why a run of these facts cannot be computed again from its beginning; nothing where it can. Not
// asked: whether a warm start's weights are still there (load_beginning finds out). Precondition:
// config and cursor are such.
std::optional<std::string> cannot_recompute(const CheckpointFacts& facts);

// Brings a fresh plan to the state before step 0 of the run that the manifest says. Collective.
// Error bad_input | corrupt | refused when the weights of its warm start are gone or others.
void load_beginning(const Manifest& manifest, Plan& plan, Communicator& comm);

}  // namespace shardproof

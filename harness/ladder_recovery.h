// ladder_recovery: whether runs outlive a death: one that is restarted (run.restarts) and one that
// goes on in place with the ranks that are left (run.elastic). Both on thread ranks; the last rank
// dies in the middle of the run, behind a save, and the losses, norms and the state at the end must
// have the bits of the run that nobody died in. Thread rule: one at a time per process.
#pragma once

#include <atomic>
#include <string>

#include "invariants/verdict.h"
#include "train/config.h"

namespace shardproof {

// Fails at the first that does not; its reason names the way ("restart", "elastic"). `fault` is
// that of both runs; empty: the death. Precondition: a layout of several ranks.
Verdict judge_recoveries(const Config& config, const std::string& layout,
                         const std::atomic<bool>* stop, const std::string& fault = "");

}  // namespace shardproof

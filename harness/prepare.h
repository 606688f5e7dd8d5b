// prepare: what must hold before any rank of this process starts: a legal config, ranks and a model
// that fit on the machine, the numerics of the process, the trace folder. Nothing is trained here.
// Thread rule: one thread, before the ranks.
#pragma once

#include <memory>

#include "base/clock.h"
#include "data/dataset.h"
#include "harness/world.h"

namespace shardproof {

// Of threads, or of processes that the launcher starts: more is a slip of the fingers.
inline constexpr int most_ranks = 512;

// The data of all ranks of this process. Error bad_input, or environment for what does not fit.
std::shared_ptr<const Dataset> prepare(const RunRequest& request);

// The config with the paths of its data and weights absolute: what it is written into (a
// checkpoint, a trace) can be used from any working folder. The Case is the same: data are known by
// their digest.
Config usable_anywhere(Config config);

void check_world_size(const Config& config);  // Error bad_input
// Error environment when the ranks of this machine, all of them or one, need more than it has.
void check_memory(const Config& config, bool all_ranks);

// A part of the start that began then (see RunRequest::on_part).
void tell_part(const RunRequest& request, const char* part, Duration began);

Duration wait_limit(const Config& config);  // of one wait for other ranks: run.deadline

}  // namespace shardproof

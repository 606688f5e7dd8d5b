// checkpoint_folder: whose checkpoints a folder holds, looked at before anything runs: a run saves
// only beside those of its own Case. Nothing is touched. Thread rule: any thread. Not checked: that
// no other run saves there at the same time (the commit of an id that exists is refused then).
#pragma once

#include "train/config.h"

namespace shardproof {

// Error conflict where config.checkpoint.directory holds checkpoints of another Case, of other data
// or, under native reduction, of another layout, backend or division of work; or whose newest
// cannot be read. It names the folder, the run found in it and what can be done. Precondition:
// check(config). Error bad_input when the data cannot be opened.
void refuse_other_run(const Config& config);
// For a new Case that begins with a checkpoint: Error conflict where the folder holds any.
void refuse_any_run(const std::string& folder);

}  // namespace shardproof

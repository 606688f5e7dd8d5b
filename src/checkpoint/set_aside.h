// set_aside: takes checkpoints out of the way of a run that falls back to an older one, so that it
// can save their ids again: damaged ones, and those of a state that went wrong. Nothing is deleted:
// the manifest moves to a name that no reader looks for (ID.damaged-N.json, ID.spiked-N.json), its
// shards stay where they are.
// Torch-free. Thread rule: as retention.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace shardproof {

// Of the checkpoints that list behind `id`, those that do not verify; returns their ids. Whole ones
// stay: the run will meet them, and their state is compared.
std::vector<std::string> set_aside_damaged(Storage& storage, const std::string& id);

// Those whose next step is `step` or later. The id of the newest that is left; empty: none. One
// whose manifest cannot be read is left alone, and is not it.
std::string set_aside_from(Storage& storage, std::int64_t step);

}  // namespace shardproof

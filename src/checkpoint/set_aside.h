// set_aside: takes damaged checkpoints out of the way of a run that falls back to an older one, so
// that it can save their ids again. Nothing is deleted: the manifest moves to a name that no reader
// looks for (ID.damaged-N.json), its shards stay where they are.
// Torch-free. Thread rule: as retention.h.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace shardproof {

// Of the checkpoints that list behind `id`, those that do not verify; returns their ids. Whole ones
// stay: the run will meet them, and their state is compared.
std::vector<std::string> set_aside_damaged(Storage& storage, const std::string& id);

}  // namespace shardproof

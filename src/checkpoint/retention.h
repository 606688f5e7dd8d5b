// retention: which checkpoints a folder keeps, and how the others go. A checkpoint goes manifest
// first, so that no reader finds one whose shards are on their way out; what is left of a removal
// that was cut by a crash is found by its record and finished by the next one.
// Guarantee: at every moment, and after a crash at any point, at least one whole checkpoint is
// there if one was: nothing is removed before the newest that stays was read and verified. The same
// holds of those with tensors: seeds alone never take the place of the newest of them.
// A folder that no manifest and no record names is never touched: another writer may be at work.
// Torch-free. Thread rule: one at a time per folder, and not while a save into it is under way.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace shardproof {

struct Retention {
  int last = 0;            // the newest so many stay; 0: all
  std::int64_t every = 0;  // and those whose step is a multiple of it; 0: none for that reason
  bool operator==(const Retention&) const = default;
};

struct SavedStep {
  std::string id;
  std::int64_t step = 0;
  bool seeds_alone = false;
  bool operator==(const SavedStep&) const = default;
};

// Ids that may go, oldest first. Pure. `saved`: oldest first.
std::vector<std::string> outdated(std::span<const SavedStep> saved, const Retention& retention);

struct PruneReport {
  std::vector<std::string> removed;
  std::string kept_because;  // why nothing was removed though something is outdated; else empty
};

// Applies `retention`, after finishing removals that a crash cut. One whose manifest cannot be read
// stays and counts for nothing. Error io: what is left is whole, or its removal is on record.
// Those `in_use` stay as well, until a later call.
PruneReport prune(Storage& storage, const Retention& retention,
                  const std::set<std::string>& in_use = {});

// Removes one, unconditionally. Missing is Error bad_input.
void remove_checkpoint(Storage& storage, const std::string& id);
// Finishes removals that were cut. Names of those whose record cannot be read: they stay.
std::vector<std::string> finish_removals(Storage& storage);

}  // namespace shardproof

// orphans: what saves leave behind that never came to their manifest: ID.shards-NONCE folders that
// nothing names. Nobody can tell those of a killed writer from those of one that stands still, so
// the caller says which are old enough to go.
// Guarantee: a writer that is only slow fails when it goes on, and commits nothing: the draft that
// its manifest would be linked from is taken away, or its name is taken first (that small file
// stays), before any shard goes; a checkpoint that was committed meanwhile keeps everything.
// Torch-free. Thread rule: as retention.h, but a save may be under way.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/storage.h"

namespace shardproof {

struct OrphanReport {
  std::vector<std::string> removed;  // folders
  std::vector<std::string> kept;  // not old enough, or a manifest that may name them is unreadable
};

// `old_enough` is asked of each orphan's folder. Error io: what is left is as it was, or an orphan.
OrphanReport remove_orphans(Storage& storage,
                            const std::function<bool(const std::string& folder)>& old_enough);

}  // namespace shardproof

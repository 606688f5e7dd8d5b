// saved_checkpoint: the verdict `checkpoint` of a program that is not ours: what it says it has
// saved is there, of the format that it should be, and whole. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

struct SavedPlace {
  std::string format;     // dcp | safetensors | torch | shardproof
  std::string path;       // what the program was told
  std::string base;       // of paths in its trace that are relative
  std::int64_t step = 0;  // of the save; what it saves at others is not looked at
  bool silent = false;    // the program traces nothing: what lies at `path` is looked at
};

// Reads every path of a `checkpoint` event of that step that says `done`; one that is not there, or
// was not said, is looked for at `place.path`. One elsewhere than at or below it does not count and
// is noted. No event that counts, or an empty trace: inconclusive.
Verdict check_saved(const Trace& trace, const SavedPlace& place);

// What lies at or below `path` and is no file, folder or link: reading it may never end.
std::optional<std::string> special_entry(const std::string& path);

}  // namespace shardproof

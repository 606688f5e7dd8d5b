// saved_checkpoint: the verdict `checkpoint` of a program that is not ours: what it says it has
// saved is there, of the format that it should be, and whole. Thread rule: one thread.
#pragma once

#include <string>

#include "invariants/verdict.h"
#include "trace/reader.h"

namespace shardproof {

struct SavedPlace {
  std::string format;   // dcp | safetensors | torch | shardproof
  std::string path;     // what the program was told
  std::string base;     // of paths in its trace that are relative
  bool silent = false;  // the program traces nothing: what lies at `path` is looked at
};

// Reads every path of a `checkpoint` event that says `done`; one that is not there, or was not
// said, is looked for at `place.path`. No such event, or an empty trace: inconclusive.
Verdict check_saved(const Trace& trace, const SavedPlace& place);

}  // namespace shardproof

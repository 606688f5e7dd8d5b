// memory_trace: a trace kept as records in this process instead of in files, for thousands of short
// runs: what read_trace would give of the same run, without captured tensors and harness events.
// Thread rule: rank() from any thread; a rank's records belong to its writer until the run ended.
#pragma once

#include <map>
#include <mutex>

#include "trace/reader.h"

namespace shardproof {

class MemoryTrace {
 public:
  // The records of a rank, empty at first; they stay where they are until take().
  RankTrace& rank(int rank);
  // Everything so far, and begins anew. Precondition: no writer is left.
  Trace take();

 private:
  std::mutex mutex_;
  std::map<int, RankTrace> ranks_;
};

}  // namespace shardproof

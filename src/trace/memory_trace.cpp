// memory_trace: see the header.
#include "trace/memory_trace.h"

#include <utility>

namespace shardproof {

RankTrace& MemoryTrace::rank(int rank) {
  const std::lock_guard lock(mutex_);
  RankTrace& trace = ranks_[rank];
  trace.rank = rank;
  return trace;
}

Trace MemoryTrace::take() {
  const std::lock_guard lock(mutex_);
  Trace trace;
  for (auto& [rank, records] : ranks_) {
    records.ascending = steps_ascend(records);
    trace.ranks.push_back(std::move(records));
  }
  ranks_.clear();
  return trace;
}

}  // namespace shardproof

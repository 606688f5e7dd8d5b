// memory_use: what the allocations of a thread are for, as a scope that any module may open. The
// memory ledger (train/memory_ledger.h) charges each allocation to the use of its moment.
// Thread rule: a scope belongs to the thread that opened it; scopes nest.
#pragma once

#include <cstdint>

namespace shardproof {

enum class MemoryUse : std::uint8_t {
  parameters,
  gathered,  // whole parameters of units that are sharded
  gradients,
  optimizer,
  activations,
  communication,
  offloaded,  // host memory that holds what the device does not (parallel/offload.h)
  other
};
inline constexpr int memory_use_count = 8;
const char* name(MemoryUse use);

MemoryUse current_memory_use();  // of this thread; `other` outside every scope

class MemoryScope {
 public:
  explicit MemoryScope(MemoryUse use);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryUse before_;
};

}  // namespace shardproof

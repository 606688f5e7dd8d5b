// memory_use: one thread-local variable behind a scope.
#include "base/memory_use.h"

namespace shardproof {
namespace {

// Per thread, because the allocator reports on the thread that allocates and names nobody.
thread_local MemoryUse current = MemoryUse::other;

}  // namespace

const char* name(MemoryUse use) {
  switch (use) {
    case MemoryUse::parameters:
      return "parameters";
    case MemoryUse::gathered:
      return "gathered";
    case MemoryUse::gradients:
      return "gradients";
    case MemoryUse::optimizer:
      return "optimizer";
    case MemoryUse::activations:
      return "activations";
    case MemoryUse::communication:
      return "communication";
    case MemoryUse::offloaded:
      return "offloaded";
    case MemoryUse::other:
      return "other";
  }
  return "?";
}

MemoryUse current_memory_use() {
  return current;
}

MemoryScope::MemoryScope(MemoryUse use) : before_(current) {
  current = use;
}
MemoryScope::~MemoryScope() {
  current = before_;
}

}  // namespace shardproof

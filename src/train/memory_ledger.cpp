// memory_ledger: LibTorch's memory reports, charged to uses.
#include "train/memory_ledger.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace shardproof {

// LibTorch reports every allocation (positive) and release (negative) of the thread it happens on.
struct MemoryLedger::Impl : c10::MemoryReportingInfoBase {
  struct Charge {
    MemoryUse use;
    std::int64_t bytes;
  };

  void reportMemoryUsage(void* pointer, int64_t bytes, size_t, size_t, c10::Device) override {
    if (bytes >= 0) {
      const MemoryUse use = current_memory_use();
      charges[pointer] = {use, bytes};
      add(use, bytes);
    } else if (const auto found = charges.find(pointer); found != charges.end()) {
      add(found->second.use, -found->second.bytes);
      charges.erase(found);
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  void add(MemoryUse use, std::int64_t bytes) {
    const auto i = static_cast<std::size_t>(use);
    live[i] += bytes;
    peak[i] = std::max(peak[i], live[i]);
    if (use == MemoryUse::offloaded) return;
    total += bytes;
    peak_total = std::max(peak_total, total);
  }

  std::unordered_map<void*, Charge> charges;
  ByUse live{};
  ByUse peak{};
  std::int64_t total = 0;
  std::int64_t peak_total = 0;
};

struct MemoryLedger::Install::Guard {
  explicit Guard(const std::shared_ptr<Impl>& impl)
      : guard(c10::DebugInfoKind::PROFILER_STATE, impl) {}
  c10::DebugInfoGuard guard;
};

MemoryLedger::MemoryLedger() : impl_(std::make_shared<Impl>()) {}
MemoryLedger::~MemoryLedger() = default;

MemoryLedger::ByUse MemoryLedger::live() const {
  return impl_->live;
}
MemoryLedger::ByUse MemoryLedger::peak() const {
  return impl_->peak;
}
std::int64_t MemoryLedger::live_total() const {
  return impl_->total;
}
std::int64_t MemoryLedger::peak_total() const {
  return impl_->peak_total;
}

void MemoryLedger::reset_peak() {
  impl_->peak = impl_->live;
  impl_->peak_total = impl_->total;
}

MemoryLedger::Install::Install(MemoryLedger& ledger)
    : guard_(std::make_unique<Guard>(ledger.impl_)) {}
MemoryLedger::Install::~Install() = default;

}  // namespace shardproof

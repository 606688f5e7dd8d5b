// memory_ledger: live bytes of LibTorch's CPU allocator, by rank thread and use
// (base/memory_use.h). Installed for the current thread by a scope (c10::ThreadLocalDebugInfo); an
// allocation is charged to the use that was current when it was made, and discharged from it when
// it is freed on this thread. What is offloaded to host memory is a use of its own and in no total:
// totals are the device's. It costs a lock and a map entry an allocation: install it where
// somebody reads it. Not seen: memory that is not LibTorch's (staging vectors count themselves, see
// PlanBytes), and what another thread frees. Thread rule: one ledger per rank thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/memory_use.h"

namespace shardproof {

class MemoryLedger {
 public:
  using ByUse = std::array<std::int64_t, memory_use_count>;

  MemoryLedger();
  ~MemoryLedger();

  ByUse live() const;
  ByUse peak() const;  // each use on its own, since reset_peak
  std::int64_t live_total() const;
  std::int64_t peak_total() const;  // of the sum over uses, since reset_peak
  void reset_peak();

  // Installs the ledger on this thread until the scope ends.
  class Install {
   public:
    explicit Install(MemoryLedger& ledger);
    ~Install();
    Install(const Install&) = delete;
    Install& operator=(const Install&) = delete;

   private:
    struct Guard;
    std::unique_ptr<Guard> guard_;
  };

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace shardproof

// memory_ledger: live bytes of LibTorch's CPU allocator, by rank thread and use. Installed for the
// current thread by a scope (c10::ThreadLocalDebugInfo); allocations are charged to the use that was
// current when they were made, and discharged from it wherever they are freed on this thread.
// Not seen: memory that is not LibTorch's (staging vectors count themselves, see PlanBytes).
#pragma once

#include <array>
#include <cstdint>
#include <memory>

namespace shardproof {

enum class MemoryUse { parameters, gradients, optimizer, activations, communication, other };
inline constexpr int memory_use_count = 6;
const char* name(MemoryUse use);

class MemoryLedger {
 public:
  MemoryLedger();
  ~MemoryLedger();

  std::array<std::int64_t, memory_use_count> live() const;
  std::array<std::int64_t, memory_use_count> peak() const;  // since reset_peak
  void reset_peak();

  // Installs the ledger on this thread; scopes nest.
  class Install {
   public:
    explicit Install(MemoryLedger& ledger);
    ~Install();
   private:
    struct Guard;
    std::unique_ptr<Guard> guard_;
  };
  // Charges allocations of this thread to `use` until the scope ends (no ledger installed: no-op).
  class Use {
   public:
    explicit Use(MemoryUse use);
    ~Use();
   private:
    MemoryUse before_;
  };

 private:
  friend class Install;
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace shardproof

// thread_group: what the ranks of one group of threads share: a slot per rank through which calls
// are published and phases announced, the reasons why the group is broken, and waiting. Internal to
// the thread backend.
// A rank that is about to read peers' buffers first raises `touching`, then looks whether the group
// is broken; a rank that must withdraw its buffers first breaks the group, then waits until nobody
// is touching. Both in sequentially consistent order: one of the two sees the other.
// Thread rule: everything may be called from any thread, slots[r].call apart (see there).
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/thread_mailbox.h"

namespace shardproof::internal {

class ThreadGroup;

// All groups of one world of threads, so that a death or a revocation reaches every one of them.
class ThreadRegistry {
 public:
  ThreadRegistry(int world_size, Duration timeout);

  // Inherits deaths, and the parent's revocation (null: no parent).
  void add(const std::shared_ptr<ThreadGroup>& group, const ThreadGroup* parent);
  void kill(int world_rank);
  void revoke(const ThreadGroup* ancestor);  // with all its descendants; null: every group

  std::uint64_t next_id() { return next_id_.fetch_add(1); }

  const Duration timeout;
  const int spins;  // polls before a waiter gives its core away: few when ranks outnumber cores

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<ThreadGroup>> groups_;
  std::vector<bool> dead_;  // by world rank
  std::atomic<std::uint64_t> next_id_{0};
};

struct alignas(64) RankSlot {
  std::atomic<std::uint64_t> progress{0};     // 4 * (number of the collective) + phase
  std::atomic<std::uint64_t> fingerprint{0};  // of the collective published last
  const Call* call = nullptr;                 // may be read by a peer whose fingerprint is the same
  std::atomic<bool> touching{false};
  std::atomic<bool> dead{false};
  // Counted by whoever moves the bytes; on a line of their own because peers write them.
  alignas(64) std::atomic<std::uint64_t> bytes_sent{0};
  std::atomic<std::uint64_t> calls{0};
  std::atomic<Duration::rep> time_in_calls{0};
};

enum class WaitEnd { ready, broken, timeout };

class ThreadGroup {
 public:
  static constexpr std::uint32_t revoked = 1, poisoned = 2, peer_dead = 4;

  // `parent`: null for the world and for shrunken groups.
  ThreadGroup(std::shared_ptr<ThreadRegistry> registry, const ThreadGroup* parent, Group group);

  int size() const { return static_cast<int>(slots.size()); }
  RankSlot& slot(int rank) { return slots[static_cast<std::size_t>(rank)]; }

  bool broken() const { return broken_.load(std::memory_order_seq_cst) != 0; }
  bool is_revoked() const { return (broken_.load() & revoked) != 0; }
  void mark(std::uint32_t reasons) { broken_.fetch_or(reasons, std::memory_order_seq_cst); }
  void mark_dead(int world_rank);  // nothing when that rank is not a member
  void notify();                   // after mark: wakes every waiter
  void signal();                   // after a change that some wait(ready) looks at: wakes sleepers
  std::vector<int> failed_ranks() const;

  // Polls, then yields, then sleeps, until ready() (looked at first), a broken group or the
  // deadline. ready() must be cheap and free of side effects.
  template <typename Ready>
  WaitEnd wait(const Ready& ready, const Deadline& deadline);

  // Begins and ends a section that reads peers' buffers; false: the group is broken, do not read.
  bool begin_touching(int rank);
  void end_touching(int rank) { slot(rank).touching.store(false, std::memory_order_seq_cst); }

  // Precondition: the group is broken. Returns when no peer's collective reads this rank's buffers.
  void wait_until_untouched(int rank);

  // Poisons the group if it is not broken yet, waits until no peer touches this rank's buffers and
  // throws: peer_died when somebody is dead, else `kind`.
  [[noreturn]] void fail(int rank, const std::string& place, ErrorKind kind,
                         const std::string& detail);
  [[noreturn]] void throw_broken(int rank, const std::string& place, ErrorKind otherwise,
                                 const std::string& detail) const;

  const std::shared_ptr<ThreadRegistry> registry;
  const Group group;
  const std::uint64_t id;                // unique in the registry
  std::vector<std::uint64_t> ancestors;  // ids; a group does not keep its parent alive
  std::vector<RankSlot> slots;
  ThreadMailbox mailbox;

  // Agreement rounds (thread_agreement.cpp), under `mutex`.
  struct Proposal {
    std::uint64_t flags = 0;
    int color = 0;
    int key = 0;
    std::string label;
  };
  struct Round {
    std::map<int, Proposal> proposals;
    bool decided = false;
    std::uint64_t flags = 0;
    std::vector<std::shared_ptr<ThreadGroup>> children;  // by rank of this group; null: none
    int taken = 0;
  };
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, Round> splits;
  std::map<std::uint64_t, Round> agreements;
  std::map<std::uint64_t, Round> shrinks;
  std::map<std::string, int> label_uses;

 private:
  std::atomic<std::uint32_t> broken_{0};
  std::atomic<int> sleepers_{0};
};

inline void pause_cpu() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

template <typename Ready>
WaitEnd ThreadGroup::wait(const Ready& ready, const Deadline& deadline) {
  for (int i = 0; i < registry->spins; ++i) {
    if (ready()) return WaitEnd::ready;
    if (broken()) return WaitEnd::broken;
    pause_cpu();
  }
  // Long enough for a small collective of ranks that share a core, short beside a sleep.
  const auto end_of_yields = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
  while (std::chrono::steady_clock::now() < end_of_yields) {
    if (ready()) return WaitEnd::ready;
    if (broken()) return WaitEnd::broken;
    if (deadline.expired()) return WaitEnd::timeout;
    std::this_thread::yield();
  }
  constexpr Duration slice = std::chrono::milliseconds(50);  // a virtual clock notifies nobody
  std::unique_lock lock(mutex);
  sleepers_.fetch_add(1, std::memory_order_seq_cst);
  WaitEnd end;
  while (true) {
    if (ready()) {
      end = WaitEnd::ready;
      break;
    }
    if (broken()) {
      end = WaitEnd::broken;
      break;
    }
    const Duration left = deadline.left();
    if (left <= Duration::zero()) {
      end = WaitEnd::timeout;
      break;
    }
    changed.wait_for(lock, std::min(left, slice));
  }
  sleepers_.fetch_sub(1, std::memory_order_seq_cst);
  return end;
}

}  // namespace shardproof::internal

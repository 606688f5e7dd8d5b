// watchdog: looks into waits that last. One thread a process, which sleeps unless a rank of its has
// stood in one operation for as long as the limit says; then it gathers the flight records of all
// ranks of the job, again and again, until it can name what is waited for. A verdict counts when
// two looks show the same standstill. Slow ranks are told once each, and waited for.
// Thread rule: any thread.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "comm/hang_analysis.h"
#include "comm/rank_watch.h"

namespace shardproof {

struct WatchLimits {
  Duration look = std::chrono::seconds(1);    // a wait of so long is looked into
  Duration stall = std::chrono::seconds(30);  // a rank without a sign of progress is hung
};

class Watchdog {
 public:
  struct Ways {
    // The records of all ranks; null: the ranks that are here are all.
    std::function<FlightRecords()> gather = nullptr;
    // A verdict on its way to all ranks (to those here: deliver); null: the ranks here are all.
    std::function<void(const Error&)> tell = nullptr;
    std::function<void(const std::string&)> note = nullptr;  // of a slow rank; null: unsaid
  };
  Watchdog(WatchLimits limits, Ways ways);
  explicit Watchdog(WatchLimits limits) : Watchdog(limits, {}) {}
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;

  const WatchLimits& limits() const { return limits_; }
  // A rank of this process, from its first call to its last.
  void join(std::shared_ptr<RankWatch> rank);
  void leave(const RankWatch& rank);
  // The same for a rank that will join again, with other groups: nothing of it stays.
  void forget(const RankWatch& rank);
  // The job goes on without that rank: a verdict that names it comes too late.
  void past(int world_rank);
  FlightRecords here() const;          // of the ranks of this process
  void deliver(const Error& verdict);  // ends the waits of the ranks of this process

 private:
  void work();
  bool anybody_waits() const;
  void look();
  void judge(const HangVerdict& verdict);

  const WatchLimits limits_;
  const Ways ways_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<RankWatch>> ranks_;
  bool stopping_ = false;
  FlightRecords last_;  // of the look before, while waits last
  std::set<std::string> told_;
  std::set<int> past_;
  std::thread thread_;
};

// What the waiting ranks throw: mismatch when the calls differ, else timeout.
Error error_of(const HangVerdict& verdict);

}  // namespace shardproof

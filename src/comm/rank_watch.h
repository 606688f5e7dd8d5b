// rank_watch: what is watched of one rank: its flight recorder, the communicators by which its
// waits can be ended, and the verdict when they were. Thread rule: any thread.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/recorded_communicator.h"

namespace shardproof {

class RankWatch {
 public:
  // `look`: a wait of so long is looked into by whoever watches.
  RankWatch(std::shared_ptr<FlightRecorder> recorder, Duration look);

  FlightRecorder& recorder() { return *recorder_; }
  const FlightRecorder& recorder() const { return *recorder_; }
  Duration look() const { return look_; }
  RankRecords records() const;  // of a rank that has ended: those it left
  void end();                   // the rank makes no further call

  // The communicators of the rank; each leaves before it is destroyed.
  void join(Communicator& comm);
  void leave(Communicator& comm);

  // Ends the rank's waits for good: every wait that ends because its group was revoked throws
  // `verdict`, of which the first stays, and then release() revokes the rank's groups. Of several
  // ranks all are judged before the first is released: they share groups.
  void judge(const Error& verdict);
  void release();
  std::optional<Error> verdict() const;
  // The same, when one is there or comes within `patience`.
  std::optional<Error> verdict_within(Duration patience) const;

 private:
  const std::shared_ptr<FlightRecorder> recorder_;
  const Duration look_;
  mutable std::mutex mutex_;
  mutable std::condition_variable given_;
  std::optional<Error> verdict_;
  bool ended_ = false;
  std::mutex joined_mutex_;  // held while groups are revoked: none is destroyed meanwhile
  std::vector<Communicator*> joined_;
};

}  // namespace shardproof

// delayed_communicator: makes communication as slow as asked by sleeping (never by spinning: both
// cores may be busy computing): latency + bytes / bandwidth a call, where bytes are the larger of
// what this rank sends and receives. A synchronous call sleeps first. A started call completes no
// earlier than its delay after the start, or after the end of the one started before: the sleep is
// in Work::wait, so that computing in between hides it. A Work must not outlive its communicator.
// Thread rule: start may be called from two threads at once (a guard starts messages on the rank's
// thread, collectives on its own).
#pragma once

#include <memory>
#include <mutex>

#include "comm/forwarding_communicator.h"

namespace shardproof {

struct CommunicationDelay {
  Duration latency{};
  double bytes_per_second = 0;  // 0: no bandwidth limit
};

class DelayedCommunicator : public ForwardingCommunicator {
 public:
  DelayedCommunicator(std::unique_ptr<Communicator> inner, CommunicationDelay delay,
                      Clock& clock = Clock::real());
  void run(const Call& call, Deadline deadline) override;
  std::unique_ptr<Work> start(const Call& call, Keep keep) override;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override;

 private:
  Duration delay_of(const Call& call) const;
  Duration reserve(const Call& call);  // when it is due
  CommunicationDelay delay_;
  Clock& clock_;
  std::mutex mutex_;
  Duration due_{};  // of the call started last
};

}  // namespace shardproof

// thread_messages: one rank's sends and recvs in a group of threads. A started message that meets a
// waiting counterpart is moved on a thread of its own kind, so that it never waits behind a
// collective; any other is moved by the peer that posts its counterpart. Internal to the thread
// backend. Thread rule: run and start belong to the rank's thread; stop may be called from any.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>

#include "comm/comm_thread.h"
#include "comm/thread_group.h"

namespace shardproof::internal {

class ThreadMessages {
 public:
  ThreadMessages(std::shared_ptr<ThreadGroup> group, int rank);

  void run(const Call& call, const Deadline& deadline);
  std::unique_ptr<Work> start(const Call& call, Keep keep);
  // Precondition: the group is broken. Takes back what waits, waits for what moves.
  void stop();

 private:
  std::shared_ptr<Message> make(const Call& call, Keep keep) const;

  std::shared_ptr<ThreadGroup> group_;
  const int rank_;
  std::mutex mutex_;
  std::vector<std::weak_ptr<Message>> under_way_;  // for stop
  CommThread thread_;
};

}  // namespace shardproof::internal

// thread_mailbox: where sends and recvs of a group of threads meet, in posting order per (from, to,
// tag). Whoever posts second moves the bytes, straight from buffer to buffer. Internal to the
// thread backend. Thread rule: safe from any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "comm/communicator.h"

namespace shardproof::internal {

struct Message {
  enum State { waiting, moving, done, stopped, mismatched };  // the last three are final
  int from = 0;
  int to = 0;
  int tag = 0;
  const void* source = nullptr;  // null for a recv
  void* target = nullptr;        // null for a send
  std::size_t bytes = 0;
  bool is_send = false;
  Keep keep;
  std::atomic<int> state{waiting};

  bool ended() const { return state.load(std::memory_order_acquire) >= done; }
};

class ThreadMailbox {
 public:
  // The counterpart when it is there already: both are then `moving`, and the caller must move
  // them.
  std::shared_ptr<Message> post(const std::shared_ptr<Message>& message);
  // Takes back a message that has met no counterpart; false when it has.
  bool withdraw(const std::shared_ptr<Message>& message);

 private:
  struct Queues {
    std::deque<std::shared_ptr<Message>> sends;
    std::deque<std::shared_ptr<Message>> recvs;
  };
  std::mutex mutex_;
  std::map<std::tuple<int, int, int>, Queues> queues_;
};

}  // namespace shardproof::internal

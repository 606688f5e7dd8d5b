// comm_thread: the thread that carries out a communicator's asynchronous calls, one after another
// in the order they were posted. The thread is started by the first task. The destructor carries
// out what is still queued (a poisoned call fails at once), then joins. Thread rule: all functions
// may be called from any thread; tasks must not throw.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "comm/communicator.h"

namespace shardproof {

class CommThread {
 public:
  CommThread() = default;
  ~CommThread();
  CommThread(const CommThread&) = delete;

  void post(std::function<void()> task);
  bool wait_idle(const Deadline& deadline);  // false when the deadline came first

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  // the front one is being carried out
  bool stopping_ = false;
  std::thread thread_;
};

// The state shared by a Work and the task that completes it.
class AsyncCall {
 public:
  explicit AsyncCall(Keep keep) : keep_(std::move(keep)) {}

  // Drops the keep, then wakes waiters. The failure is kept as a value: an exception object shared
  // between threads would be freed where no sanitizer sees the order.
  void complete(std::optional<Error> error);
  bool wait(const Deadline& deadline);  // false when the deadline came first
  bool done() const;
  void rethrow() const;  // what complete() was given, if anything

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Keep keep_;
  std::optional<Error> error_;
  bool done_ = false;
};

}  // namespace shardproof

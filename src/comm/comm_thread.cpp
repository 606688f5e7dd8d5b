// comm_thread: a queue, a thread, and the completion of one call.
#include "comm/comm_thread.h"

#include <utility>

#include "comm/deadline_wait.h"

namespace shardproof {

CommThread::~CommThread() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void CommThread::post(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  }
  changed_.notify_all();
}

bool CommThread::wait_idle(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return wait_under(changed_, lock, deadline, [this] { return tasks_.empty(); });
}

void CommThread::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    lock.unlock();
    task();
    task = nullptr;  // what the task holds goes before anyone hears that it is done
    lock.lock();
    tasks_.pop_front();
    changed_.notify_all();
  }
}

void AsyncCall::complete(std::optional<Error> error) {
  Keep dropped;
  {
    std::lock_guard lock(mutex_);
    dropped = std::move(keep_);
  }
  dropped.reset();
  {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
  }
  changed_.notify_all();
}

bool AsyncCall::wait(const Deadline& deadline) {
  std::unique_lock lock(mutex_);
  return wait_under(changed_, lock, deadline, [this] { return done_; });
}

bool AsyncCall::done() const {
  std::lock_guard lock(mutex_);
  return done_;
}

void AsyncCall::rethrow() const {
  std::lock_guard lock(mutex_);
  if (error_) throw *error_;
}

}  // namespace shardproof

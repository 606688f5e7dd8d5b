// mpi_queue: one pass after the other over all calls under way; sleeps when nothing moves.
#include "comm/mpi_queue.h"

#include <algorithm>

#include "base/check.h"

namespace shardproof {

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

std::atomic<int>& pending(MpiGroup& group, CallKind kind) {
  return is_message(kind) ? group.pending_messages : group.pending_collectives;
}

std::string place(const MpiQueue::Item& item) {
  return call_place(*item.group, item.call.kind, item.call.peer, item.tag);
}

// Must `later` wait for `earlier`?
bool conflicts(const MpiQueue::Item& earlier, const MpiQueue::Item& later) {
  if (earlier.group != later.group) return false;
  const bool message = is_message(later.call.kind);
  if (message != is_message(earlier.call.kind)) return false;
  return !message || (earlier.call.kind == later.call.kind && earlier.tag == later.tag &&
                      earlier.call.peer == later.call.peer);
}

}  // namespace

MpiQueue::~MpiQueue() {
  {
    const std::lock_guard lock(mutex_);
    for (const auto& item : items_) item->group->poison();
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<MpiQueue::Item> MpiQueue::push(std::shared_ptr<MpiGroup> group, const Call& call,
                                               Keep keep, int tag) {
  auto item = std::make_shared<Item>();
  item->group = std::move(group);
  item->call = call;
  item->keep = std::move(keep);
  item->tag = tag;
  item->group->count_call();
  ++pending(*item->group, call.kind);
  {
    const std::lock_guard lock(mutex_);
    items_.push_back(item);
    if (!thread_.joinable()) thread_ = std::thread([this] { loop(); });
  }
  changed_.notify_all();
  return item;
}

void MpiQueue::wait(Item& item, Deadline deadline) {
  std::unique_lock lock(mutex_);
  while (!item.finished) {
    if (deadline.expired()) {
      item.group->time_out();
      throw Error(ErrorKind::timeout, place(item), "not complete at its deadline");
    }
    changed_.wait_for(lock, std::min<Duration>(deadline.left(), milliseconds(20)));
  }
  if (item.error) std::rethrow_exception(item.error);
}

void MpiQueue::wait_finished(const Item& item) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return item.finished; });
}

bool MpiQueue::finished(const Item& item) const {
  const std::lock_guard lock(mutex_);
  return item.finished;
}

void MpiQueue::drain(const MpiGroup& group) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    return std::none_of(items_.begin(), items_.end(),
                        [&](const auto& item) { return item->group.get() == &group; });
  });
}

void MpiQueue::loop() {
  constexpr Duration eager = microseconds(50);  // how long an idle poll yields before it sleeps
  Duration last_move = Clock::real().now();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (items_.empty()) {
        changed_.wait(lock, [&] { return stop_ || !items_.empty(); });
        if (items_.empty()) return;
        last_move = Clock::real().now();
      }
    }
    if (advance_all()) {
      last_move = Clock::real().now();
    } else if (Clock::real().now() - last_move < eager) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(microseconds(50));
    }
  }
}

bool MpiQueue::may_begin(const Item& item) const {
  const std::lock_guard lock(mutex_);
  for (const auto& earlier : items_) {
    if (earlier.get() == &item) return true;
    if (conflicts(*earlier, item)) return false;
  }
  SP_CHECK(false, "an item that is not in the queue");
}

bool MpiQueue::advance_all() {
  std::vector<std::shared_ptr<Item>> items;
  {
    const std::lock_guard lock(mutex_);
    items.assign(items_.begin(), items_.end());
  }
  bool moved = false;
  for (const auto& item : items) moved = advance(*item) || moved;
  return moved;
}

bool MpiQueue::advance(Item& item) {
  try {
    if (item.group->stopped()) item.group->check(place(item));
    if (!item.execution) {
      if (!may_begin(item)) return false;
      item.begun = Clock::real().now();
      item.execution.emplace(item.group, buffers_, item.call, item.tag);
      item.next_check = item.begun;
    }
    if (item.execution->advance()) {
      finish(item, nullptr);
      return true;
    }
    if (const Duration now = Clock::real().now(); now >= item.next_check) {
      item.group->check(place(item));
      item.next_check = now + milliseconds(1);
    }
    return false;
  } catch (const Error&) {
    item.group->poison();
    finish(item, std::current_exception());
    return true;
  }
}

void MpiQueue::finish(Item& item, std::exception_ptr error) {
  if (item.execution) {
    item.group->count(item.execution->bytes_sent(), Clock::real().now() - item.begun);
  }
  item.execution.reset();  // after a failure: nothing touches the buffers from here on
  --pending(*item.group, item.call.kind);
  item.keep.reset();  // before anybody can see the end, and without the lock
  {
    const std::lock_guard lock(mutex_);
    item.error = std::move(error);
    item.finished = true;
    std::erase_if(items_, [&](const auto& other) { return other.get() == &item; });
  }
  changed_.notify_all();
}

}  // namespace shardproof

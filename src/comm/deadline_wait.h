// deadline_wait: waits on a condition variable under a Deadline. A virtual clock moves without
// notifying anyone, so no single sleep is longer than `slice`.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "base/clock.h"

namespace shardproof {

// True when ready() became true before the deadline. `lock` is held on entry, on return and while
// ready() runs.
template <typename Ready>
bool wait_under(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                const Deadline& deadline, const Ready& ready) {
  constexpr Duration slice = std::chrono::milliseconds(50);
  while (!ready()) {
    const Duration left = deadline.left();
    if (left <= Duration::zero()) return false;
    changed.wait_for(lock, std::min(left, slice));
  }
  return true;
}

}  // namespace shardproof

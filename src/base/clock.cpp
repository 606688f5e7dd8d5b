// clock: the real clock is steady_clock; deadlines saturate to never instead of overflowing.
#include "base/clock.h"

#include <algorithm>
#include <thread>

namespace shardproof {
namespace {

class RealClock : public Clock {
 public:
  Duration now() const override {
    return std::chrono::duration_cast<Duration>(
        std::chrono::steady_clock::now().time_since_epoch());
  }
  void sleep_for(Duration duration) override { std::this_thread::sleep_for(duration); }
};

}  // namespace

Clock& Clock::real() {
  static RealClock clock;
  return clock;
}

Deadline Deadline::after(Duration duration, Clock& clock) {
  const Duration now = clock.now();
  Deadline deadline;
  if (duration > Duration::zero() && now > Duration::max() - duration) return never();
  deadline.clock_ = &clock;
  deadline.end_ = now + duration;
  return deadline;
}

Deadline Deadline::never() {
  return Deadline();
}

bool Deadline::expired() const {
  return left() == Duration::zero();
}

Duration Deadline::left() const {
  if (clock_ == nullptr) return Duration::max();
  return std::max(end_ - clock_->now(), Duration::zero());
}

}  // namespace shardproof

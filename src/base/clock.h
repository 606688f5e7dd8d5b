// clock: time that can be real or virtual, and deadlines on it. Everything that waits takes a
// Deadline. Thread rule: all functions may be called from any thread.
#pragma once

#include <atomic>
#include <chrono>

namespace shardproof {

using Duration = std::chrono::nanoseconds;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Duration now() const = 0;               // monotonic, from an arbitrary origin
  virtual void sleep_for(Duration duration) = 0;  // a virtual clock moves forward instead
  static Clock& real();
};

// Moves only when told to (advance, sleep_for): for fault scenarios that must not wait.
class VirtualClock : public Clock {
 public:
  Duration now() const override { return Duration(now_.load()); }
  void sleep_for(Duration duration) override { advance(duration); }
  void advance(Duration duration) { now_ += duration.count(); }

 private:
  std::atomic<Duration::rep> now_{0};
};

class Deadline {
 public:
  static Deadline after(Duration duration, Clock& clock = Clock::real());
  static Deadline never();

  bool expired() const;
  Duration left() const;  // zero when expired, Duration::max() when never

 private:
  Clock* clock_ = nullptr;  // null: never
  Duration end_{};
};

}  // namespace shardproof

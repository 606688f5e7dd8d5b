// ctest: unit
// A jump is seen by everything that asks for the time of day, and by nothing else.
#include "harness/wall_clock.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <mutex>

namespace shardproof {
namespace {

using std::chrono::hours;
using std::chrono::seconds;

// What the kernel says, whatever was defined in front of the library.
Duration of_kernel(clockid_t clock) {
  timespec time{};
  ::syscall(SYS_clock_gettime, clock, &time);
  return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

class WallClock : public testing::Test {
 protected:
  void jump(Duration by) {
    move_wall_clock(by);
    moved_ += by;
  }
  ~WallClock() override { move_wall_clock(-moved_); }

 private:
  Duration moved_{};
};

void expect_ahead(Duration by) {
  const auto near = [by](Duration found, const char* what) {
    const Duration error = found - of_kernel(CLOCK_REALTIME) - by;
    EXPECT_LT(std::chrono::abs(error), seconds(5)) << what;
  };
  near(std::chrono::system_clock::now().time_since_epoch(), "system_clock");
  near(seconds(::time(nullptr)), "time");
  timeval day{};
  ::gettimeofday(&day, nullptr);
  near(seconds(day.tv_sec), "gettimeofday");
  const Duration steady = std::chrono::steady_clock::now().time_since_epoch();
  EXPECT_LT(std::chrono::abs(steady - of_kernel(CLOCK_MONOTONIC)), seconds(5));
}

TEST_F(WallClock, JumpsForwardAndBack) {
  expect_ahead({});
  jump(hours(3));
  expect_ahead(hours(3));
  jump(-hours(5));
  expect_ahead(-hours(2));
  jump(hours(2));
  expect_ahead({});
}

// Why deadlines are on the steady clock: this wait was meant to take an hour.
TEST_F(WallClock, AWaitUntilATimeOfDayEndsAtAnotherMomentAfterAJump) {
  jump(-hours(2));
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const Duration begun = Clock::real().now();
  const auto end = std::chrono::system_clock::now() + hours(1);
  // The library waits again while the moved clock has not come to `end`: the kernel's has.
  timespec until{};
  until.tv_sec = std::chrono::duration_cast<seconds>(end.time_since_epoch()).count();
  EXPECT_EQ(::pthread_cond_timedwait(never.native_handle(), mutex.native_handle(), &until),
            ETIMEDOUT);
  EXPECT_LT(Clock::real().now() - begun, seconds(30));
}

TEST_F(WallClock, DeadlinesDoNotFeelIt) {
  const Deadline deadline = Deadline::after(seconds(60));
  jump(hours(3));
  EXPECT_FALSE(deadline.expired());
  jump(-hours(6));
  EXPECT_LE(deadline.left(), seconds(60));
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "base/clock.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

using std::chrono::milliseconds;

TEST(Clock, RealTimeMovesForwardByAtLeastTheSleep) {
  Clock& clock = Clock::real();
  const Duration before = clock.now();
  clock.sleep_for(milliseconds(5));
  EXPECT_GE(clock.now() - before, milliseconds(5));
  EXPECT_EQ(&clock, &Clock::real());
}

TEST(VirtualClock, MovesOnlyWhenTold) {
  VirtualClock clock;
  EXPECT_EQ(clock.now(), Duration::zero());
  clock.advance(milliseconds(3));
  clock.sleep_for(std::chrono::hours(1));
  EXPECT_EQ(clock.now(), milliseconds(3) + std::chrono::hours(1));
}

TEST(Deadline, ExpiresExactlyAtItsEnd) {
  VirtualClock clock;
  const Deadline deadline = Deadline::after(milliseconds(10), clock);
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(deadline.left(), milliseconds(10));
  clock.advance(milliseconds(9));
  EXPECT_FALSE(deadline.expired());
  EXPECT_EQ(deadline.left(), milliseconds(1));
  clock.advance(milliseconds(1));
  EXPECT_TRUE(deadline.expired());
  EXPECT_EQ(deadline.left(), Duration::zero());
  clock.advance(milliseconds(100));
  EXPECT_EQ(deadline.left(), Duration::zero());
}

TEST(Deadline, ZeroAndNegativeAreExpired) {
  VirtualClock clock;
  EXPECT_TRUE(Deadline::after(Duration::zero(), clock).expired());
  EXPECT_TRUE(Deadline::after(milliseconds(-1), clock).expired());
}

TEST(Deadline, NeverAndBeyondTheClockDoNotExpire) {
  EXPECT_FALSE(Deadline::never().expired());
  EXPECT_EQ(Deadline::never().left(), Duration::max());
  VirtualClock clock;
  clock.advance(milliseconds(1));
  const Deadline huge = Deadline::after(Duration::max(), clock);
  EXPECT_FALSE(huge.expired());
  EXPECT_EQ(huge.left(), Duration::max());
}

TEST(Deadline, UsesTheRealClockByDefault) {
  const Duration end = Clock::real().now() + milliseconds(2);
  const Deadline deadline = Deadline::after(milliseconds(2));
  while (!deadline.expired()) {  // ctest's own deadline ends it where time stands still
  }
  EXPECT_GE(Clock::real().now(), end);
  EXPECT_FALSE(Deadline::after(std::chrono::hours(1)).expired());
}

}  // namespace
}  // namespace shardproof

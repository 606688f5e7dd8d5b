// ctest: unit
// save_interval: by steps, by time, by cost against failures, on a clock that moves when told.
#include "checkpoint/save_interval.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

TEST(YoungInterval, IsTheSquareRootOfTwiceCostTimesMtbf) {
  EXPECT_EQ(young_interval(seconds(2), seconds(100)), seconds(20));
  EXPECT_EQ(young_interval(seconds(50), seconds(10000)), seconds(1000));
  EXPECT_EQ(young_interval(Duration(0), seconds(100)), Duration(0));
}

TEST(SaveTimer, BySteps) {
  VirtualClock clock;
  const SaveTimer timer({3, {}, {}}, clock);
  EXPECT_FALSE(timer.needs_clock());
  for (std::int64_t next = 1; next <= 9; ++next) EXPECT_EQ(timer.due(next), next % 3 == 0) << next;
}

TEST(SaveTimer, NeverUnlessAsked) {
  VirtualClock clock;
  SaveTimer timer({}, clock);
  clock.advance(minutes(1000));
  EXPECT_FALSE(timer.due(1));
  EXPECT_FALSE(timer.needs_clock());
}

TEST(SaveTimer, ByTimeSinceTheLastSaveEnded) {
  VirtualClock clock;
  SaveTimer timer({0, minutes(10), {}}, clock);
  EXPECT_TRUE(timer.needs_clock());
  clock.advance(minutes(10) - Duration(1));
  EXPECT_FALSE(timer.due(1));
  clock.advance(Duration(1));
  EXPECT_TRUE(timer.due(1));
  timer.saved(seconds(3));
  EXPECT_FALSE(timer.due(2));
  clock.advance(minutes(10));
  EXPECT_TRUE(timer.due(3));
}

TEST(SaveTimer, ByCostTheFirstAtOnceThenAsTheMeasuredCostSays) {
  VirtualClock clock;
  SaveTimer timer({0, {}, seconds(200)}, clock);
  EXPECT_TRUE(timer.due(1));
  timer.saved(seconds(1));  // sqrt(2 x 1 x 200) = 20
  clock.advance(seconds(20) - Duration(1));
  EXPECT_FALSE(timer.due(2));
  clock.advance(Duration(1));
  EXPECT_TRUE(timer.due(2));
  timer.saved(seconds(7));  // C moves to 4: 40 s
  clock.advance(seconds(39));
  EXPECT_FALSE(timer.due(3));
  clock.advance(seconds(1));
  EXPECT_TRUE(timer.due(3));
}

TEST(SaveTimer, WithSeveralRulesTheFirstThatComes) {
  VirtualClock clock;
  SaveTimer timer({5, seconds(10), {}}, clock);
  EXPECT_TRUE(timer.due(5));
  EXPECT_FALSE(timer.due(6));
  clock.advance(seconds(10));
  EXPECT_TRUE(timer.due(6));
}

}  // namespace
}  // namespace shardproof

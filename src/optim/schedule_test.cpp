// ctest: unit
// Warm-up, cosine, constant tail: values at the joints, and the shape between them.
#include "optim/schedule.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace shardproof {
namespace {

const ScheduleConfig config{.lr = 2.0, .warmup = 4, .total = 13, .final_ratio = 0.25};

TEST(Schedule, WarmsUpFromTheFirstFraction) {
  EXPECT_EQ(learning_rate(config, 0), 0.5);
  EXPECT_EQ(learning_rate(config, 1), 1.0);
  EXPECT_EQ(learning_rate(config, 3), 2.0);
}

TEST(Schedule, FollowsACosineToTheFinalRate) {
  EXPECT_EQ(learning_rate(config, 4), 2.0);            // cos 0
  EXPECT_NEAR(learning_rate(config, 8), 1.25, 1e-15);  // half way: the mean of both ends
  EXPECT_NEAR(learning_rate(config, 6), 1.25 + 0.75 * 0.70710678118654752, 1e-15);
  EXPECT_EQ(learning_rate(config, 12), 0.5);  // total - 1
  EXPECT_EQ(learning_rate(config, 13), 0.5);
  EXPECT_EQ(learning_rate(config, 1000000), 0.5);
}

TEST(Schedule, IsConstantWithoutATotal) {
  const ScheduleConfig constant{.lr = 1e-3, .warmup = 2};
  EXPECT_EQ(learning_rate(constant, 0), 5e-4);
  EXPECT_EQ(learning_rate(constant, 2), 1e-3);
  EXPECT_EQ(learning_rate(constant, 99), 1e-3);
  EXPECT_EQ(learning_rate({.lr = 1e-3}, 0), 1e-3);
}

TEST(Schedule, EndsAtOnceWhereNothingIsLeftToDecay) {
  EXPECT_EQ(learning_rate({.lr = 1, .warmup = 0, .total = 1, .final_ratio = 0.1}, 0), 0.1);
  EXPECT_EQ(learning_rate({.lr = 1, .warmup = 3, .total = 3, .final_ratio = 0.1}, 2), 1.0);
  EXPECT_EQ(learning_rate({.lr = 1, .warmup = 3, .total = 3, .final_ratio = 0.1}, 3), 0.1);
}

RC_GTEST_PROP(Schedule, RisesThenFalls, ()) {
  const auto warmup = *rc::gen::inRange<std::int64_t>(0, 50);
  const ScheduleConfig any{.lr = 1,
                           .warmup = warmup,
                           .total = warmup + *rc::gen::inRange<std::int64_t>(1, 50),
                           .final_ratio = 0.1};
  const auto step = *rc::gen::inRange<std::int64_t>(0, 120);
  const double now = learning_rate(any, step), next = learning_rate(any, step + 1);
  RC_ASSERT(now > 0 && now <= 1);
  if (step + 1 < any.warmup) {
    RC_ASSERT(next > now);
  } else if (step >= any.warmup) {
    RC_ASSERT(next <= now);
  }
}

TEST(ScheduleDeathTest, StepsCountFromZero) {
  EXPECT_DEATH(learning_rate(config, -1), "0 <= step");
}

}  // namespace
}  // namespace shardproof

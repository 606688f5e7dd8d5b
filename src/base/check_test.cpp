// ctest: unit
#include "base/check.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(CheckDeathTest, PrintsExpressionMessageAndPlaceAndAborts) {
  EXPECT_EXIT(SP_CHECK(1 > 2, "the reason"), testing::KilledBySignal(SIGABRT),
              "check failed: 1 > 2 \\(the reason\\) at .*check_test.cpp:[0-9]+");
}

TEST(CheckDeathTest, ComparisonsPrintBothValues) {
  const int left = 3;
  EXPECT_EXIT(SP_CHECK_EQ(left, 4), testing::KilledBySignal(SIGABRT), "left == 4 \\(3 vs 4\\)");
  EXPECT_EXIT(SP_CHECK_LT(left, 3), testing::KilledBySignal(SIGABRT), "left < 3 \\(3 vs 3\\)");
  EXPECT_EXIT(SP_CHECK_LE(left, 2), testing::KilledBySignal(SIGABRT), "left <= 2 \\(3 vs 2\\)");
}

TEST(Check, PassesSilentlyAndEvaluatesOnce) {
  int calls = 0;
  SP_CHECK(++calls == 1, "never seen");
  SP_CHECK_EQ(++calls, 2);
  SP_CHECK_LT(++calls, 4);
  SP_CHECK_LE(++calls, 4);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "harness/cli/stop_signal.h"

#include <gtest/gtest.h>

#include <csignal>

namespace shardproof {
namespace {

void expect_default(int number) {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  EXPECT_EQ(now.sa_handler, SIG_DFL) << number;
}

TEST(StopSignal, EachOfThemIsAWish) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    std::signal(number, SIG_DFL);
    {
      const StopSignal stop;
      EXPECT_FALSE(stop.flag());
      std::raise(number);
      EXPECT_TRUE(stop.flag()) << number;
    }
    expect_default(number);
  }
}

TEST(StopSignal, ASecondHangUpIsNoSecondWish) {
  std::signal(SIGHUP, SIG_DFL);
  const StopSignal stop;
  std::raise(SIGHUP);
  std::raise(SIGHUP);
  EXPECT_TRUE(stop.flag());
}

TEST(StopSignalDeathTest, ASecondCtrlCEnds) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const StopSignal stop;
  EXPECT_EXIT(
      {
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignal, AHangUpThatWasIgnoredStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    const StopSignal stop;
    std::raise(SIGHUP);
    EXPECT_FALSE(stop.flag());
  }
  EXPECT_EQ(std::signal(SIGHUP, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "harness/say.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace shardproof {
namespace {

// In a process of its own, for stdout keeps its error.
[[noreturn]] void say_to(const char* file, int exit_code) {
  if (std::freopen(file, "w", stdout) == nullptr) std::_Exit(99);
  say("a line\n");
  say("another\n");  // the first failure stops nothing
  std::_Exit(finish_output(exit_code));
}

TEST(SayDeathTest, AFullDiskIsToldAtTheEnd) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char* words = "standard output: not all was written: No space left on device";
  EXPECT_EXIT(say_to("/dev/full", 0), testing::ExitedWithCode(3), words);
  EXPECT_EXIT(say_to("/dev/full", 1), testing::ExitedWithCode(1), words);
  EXPECT_EXIT(say_to("/dev/full", 130), testing::ExitedWithCode(130), words);
}

TEST(SayDeathTest, WhatWasWrittenKeepsItsExitCode) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int code : {0, 1, 3}) {
    EXPECT_EXIT(say_to("/dev/null", code), testing::ExitedWithCode(code), "^$");
  }
}

}  // namespace
}  // namespace shardproof

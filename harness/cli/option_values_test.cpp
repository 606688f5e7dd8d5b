// ctest: unit
#include "harness/cli/option_values.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(IntegerRange, TakesWhatItNames) {
  for (const char* text : {"1", "7", "64"}) EXPECT_EQ(integer_range(1, 64)(text), "") << text;
  EXPECT_EQ(integer_range(-3, 3)("-3"), "");
  EXPECT_EQ(integer_range(1)("2147483647"), "");
}

TEST(IntegerRange, EverythingElseIsToldTheRangeInIntegers) {
  for (const char* text : {"0", "65", "-1", "", "x", "7x", "7.0", "1e1", " 7", "99999999999"}) {
    EXPECT_EQ(integer_range(1, 64)(text),
              "found " + std::string(text) + "; expected an integer from 1 to 64");
  }
  EXPECT_EQ(integer_range(1)("2147483648"),
            "found 2147483648; expected an integer from 1 to 2147483647");
}

TEST(IntegerRange, TheHelpSaysItInIntegers) {
  EXPECT_EQ(integer_range(1, 64).get_description(), "from 1 to 64");
}

TEST(NotEmpty, RefusesAForgottenVariable) {
  EXPECT_EQ(not_empty()("x"), "");
  EXPECT_EQ(not_empty()(""), "found an empty text; leave the option out instead");
}

}  // namespace
}  // namespace shardproof

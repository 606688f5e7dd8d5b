// ctest: unit
#include "harness/exec_arguments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

extern char** environ;

namespace shardproof {
namespace {

TEST(ExecArguments, TheEnvironmentIsKeptAndReplacedByName) {
  ASSERT_NE(*environ, nullptr);
  const std::string present = *environ;
  const std::string name = present.substr(0, present.find('='));
  const auto plain = merged_environment({});
  EXPECT_EQ(std::count(plain.begin(), plain.end(), present), 1);
  const auto merged = merged_environment({{name, "a=b c"}, {"SHARDPROOF_TEST_NEW", ""}});
  EXPECT_EQ(std::count(merged.begin(), merged.end(), name + "=a=b c"), 1);
  EXPECT_EQ(std::count(merged.begin(), merged.end(), present), present == name + "=a=b c");
  EXPECT_EQ(std::count(merged.begin(), merged.end(), "SHARDPROOF_TEST_NEW="), 1);
  EXPECT_EQ(merged.size(), plain.size() + 1);
}

TEST(ExecArguments, PointersEndWithNull) {
  std::vector<std::string> words{"a", "", "b c"};
  const auto pointers = exec_pointers(words);
  ASSERT_EQ(pointers.size(), 4u);
  EXPECT_STREQ(pointers[2], "b c");
  EXPECT_EQ(pointers[3], nullptr);
  std::vector<std::string> none;
  EXPECT_EQ(exec_pointers(none), std::vector<char*>{nullptr});
}

}  // namespace
}  // namespace shardproof

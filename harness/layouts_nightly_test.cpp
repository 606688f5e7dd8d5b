// ctest: invariant timeout=3600 processors=2 nightly
// The layout law at length: the whole table with its MPI rows over 10 steps, eight layouts over 100
// steps, and every legal layout of each Case up to 8 ranks.
#include "harness/layouts_testing.h"

namespace shardproof {
namespace {

using testing_support::expect_equal_rows;

TEST(LayoutsNightly, TheTableOnThreadsAndMpi) {
  EXPECT_EQ(expect_equal_rows({}, std::chrono::minutes(10)).size(), layout_list().size() + 13);
}

TEST(LayoutsNightly, AHundredSteps) {
  const Json rows = expect_equal_rows({"--long"}, std::chrono::minutes(15));
  EXPECT_GE(rows.size(), 8u);
  for (const Json& row : rows) EXPECT_EQ(row.at("steps"), 100);
}

TEST(LayoutsNightly, EveryLegalLayout) {
  EXPECT_GT(expect_equal_rows({"--all", "--steps", "3"}, std::chrono::minutes(30)).size(), 1000u);
}

}  // namespace
}  // namespace shardproof

// ctest: fault timeout=300
// The figures of `bench crashes` add up. No speed is judged here: that is what the verb is for.
#include "harness/bench/crashes.h"

#include <gtest/gtest.h>

namespace shardproof::bench {
namespace {

TEST(CrashBench, FiguresAddUp) {
  Json result = run_crash_bench({.quick = true});
  ASSERT_EQ(result.size(), 3u);
  for (const Json& row : result) {
    const auto count = [&](const char* key) { return row.at(key).get<int>(); };
    EXPECT_EQ(count("judged"), count("old") + count("new") + count("none_yet"));
    EXPECT_LE(count("judged"), count("different"));
    EXPECT_LT(count("different"), count("derived"));
    EXPECT_GT(count("judged"), 0);
  }
  for (Json& row : result) row["ratio"] = 1.5;
  EXPECT_EQ(crash_bench_status(result), 0);
  result[1]["ratio"] = 0.9;
  EXPECT_EQ(crash_bench_status(result), 1);
}

}  // namespace
}  // namespace shardproof::bench

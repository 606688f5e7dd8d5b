// ctest: fault timeout=60
// The figures of `bench faults` add up. No speed is judged here: that is what the verb is for.
#include "harness/bench/faults.h"

#include <gtest/gtest.h>

namespace shardproof::bench {
namespace {

TEST(FaultBench, FiguresAddUp) {
  Json result = run_fault_bench({.quick = true});
  ASSERT_EQ(result.size(), 3u);
  for (Json& row : result) {
    EXPECT_GT(row.at("scenarios").get<int>(), 0);
    EXPECT_EQ(row.at("fired"), row.at("scenarios"));
    row["ratio"] = 1.5;
  }
  EXPECT_EQ(fault_bench_status(result), 0);
  result[1]["ratio"] = 0.9;
  EXPECT_EQ(fault_bench_status(result), 1);
}

}  // namespace
}  // namespace shardproof::bench

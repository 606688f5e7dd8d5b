// ctest: invariant timeout=120
// The figures of `bench trace` are there and its limits judge. No speed is judged here; what it
// keeps in memory is.
#include <gtest/gtest.h>

#include "harness/bench/trace.h"

namespace shardproof::bench {
namespace {

TEST(TraceBench, TellsTimeAndPeakOfEveryWay) {
  Json result = run_trace_bench({.quick = true});
  ASSERT_EQ(result.at("rows").size(), 4u);
  for (Json& row : result["rows"]) {
    EXPECT_GT(row.at("seconds").get<double>(), 0) << row.dump();
    EXPECT_GT(row.at("peak_megabytes").get<double>(), 0) << row.dump();
    EXPECT_LT(row.at("peak_megabytes").get<double>(), row.at("asked_megabytes").get<double>());
    row["ratio"] = 1.5;
  }
  EXPECT_EQ(trace_bench_status(result), 0);
  result["rows"][1]["ratio"] = 2.5;
  EXPECT_EQ(trace_bench_status(result), 1);
  result["rows"][1]["ratio"] = 1.5;
  result["rows"][2]["peak_megabytes"] = 301;
  EXPECT_EQ(trace_bench_status(result), 1);
}

}  // namespace
}  // namespace shardproof::bench

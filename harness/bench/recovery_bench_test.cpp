// ctest: fault timeout=90 processors=2 lock=mpi
// The figures of `bench recovery` add up. No speed is judged here: that is what the verb is for.
#include "harness/bench/recovery.h"

#include <gtest/gtest.h>

namespace shardproof::bench {
namespace {

TEST(RecoveryBench, FiguresAddUp) {
  Json result = run_recovery_bench({.rounds = 1, .quick = true, .program = SHARDPROOF_COMMAND});
  ASSERT_EQ(result.at("verdicts").size(), 2U);
  ASSERT_EQ(result.at("recoveries").size(), 3U);
  for (const Json& row : result.at("recoveries")) {
    double sum = 0;
    for (const Json& part : row.at("parts")) sum += part.at("seconds").get<double>();
    const double seconds = row.at("seconds").get<double>();
    EXPECT_GT(seconds, 0);
    // The parts begin with the victim's last sign of life, a moment before or after the signal.
    EXPECT_NEAR(sum, seconds, 0.5 + seconds / 4) << row;
  }
  for (Json& row : result["verdicts"]) row["seconds"] = 0.1;
  result["recoveries"][0]["seconds"] = 2.9;
  EXPECT_EQ(recovery_bench_status(result), 0);
  result["recoveries"][0]["seconds"] = 3.1;
  EXPECT_EQ(recovery_bench_status(result), 1);
  result["recoveries"][0]["seconds"] = 2.9;
  result["verdicts"][1]["seconds"] = 2.5;
  EXPECT_EQ(recovery_bench_status(result), 1);
}

}  // namespace
}  // namespace shardproof::bench

// ctest: comm timeout=120 processors=2
// bench pipeline: what it reports. Times are only checked to be times.
#include "harness/bench/pipeline.h"

#include <gtest/gtest.h>

namespace shardproof::bench {
namespace {

TEST(PipelineBench, MeasuresEveryScheduleBesideItsFormula) {
  const Json rows = run_pipeline_bench({.steps = 2, .quick = true});
  ASSERT_EQ(rows.size(), 8U);
  for (const Json& row : rows) {
    EXPECT_GT(row.at("idle").get<double>(), 0) << row.dump();
    EXPECT_LT(row.at("idle").get<double>(), 1) << row.dump();
    EXPECT_GT(row.at("ms").get<double>(), row.at("idle_ms").get<double>()) << row.dump();
  }
  EXPECT_DOUBLE_EQ(rows[1].at("formula").get<double>(), 1.0 / 5);   // 1f1b, 4 micro-batches
  EXPECT_DOUBLE_EQ(rows[6].at("formula").get<double>(), 1.0 / 17);  // int2, 8
}

}  // namespace
}  // namespace shardproof::bench

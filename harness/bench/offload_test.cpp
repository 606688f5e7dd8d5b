// ctest: comm timeout=120 processors=2
// bench offload: what it reports. Times are only checked to be times.
#include "harness/bench/offload.h"

#include <gtest/gtest.h>

namespace shardproof::bench {
namespace {

TEST(OffloadBench, ComparesEveryPlaceWithNone) {
  const Json rows = run_offload_bench({.quick = true});
  ASSERT_EQ(rows.size(), 6U);
  for (const Json& row : rows) {
    EXPECT_GT(row.at("ms").get<double>(), row.at("optimizer_ms").get<double>()) << row.dump();
    EXPECT_GT(row.at("optimizer_ms").get<double>(), 0) << row.dump();
    EXPECT_GT(row.at("ratio").get<double>(), 0) << row.dump();
  }
  EXPECT_EQ(rows[0].at("ratio"), 1.0);
  EXPECT_EQ(rows[5].at("to"), "file");
}

}  // namespace
}  // namespace shardproof::bench

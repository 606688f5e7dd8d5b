// ctest: unit timeout=60 processors=2
// The Cases of `bench cases` are those that are asked for, and the figures add up. No speed is
// judged here: that is what the verb is for.
#include "harness/bench/cases.h"

#include <gtest/gtest.h>

#include "mesh/layout.h"

namespace shardproof::bench {
namespace {

TEST(CaseBench, TinyIsTheSmallestCaseOnFourRanks) {
  const auto benches = case_benches();
  ASSERT_EQ(benches.size(), 2u);
  for (const Config& config : benches[0].configs) {
    EXPECT_EQ(config.model.layers, 1);
    EXPECT_EQ(config.training.steps, 1);
    EXPECT_EQ(parse_layout(config.run.layout).world(), 4);
    EXPECT_LE(
        config.micro_batches() * config.numerics.tensor_pieces * config.numerics.sequence_pieces,
        8);
    EXPECT_NO_THROW(check(config));
  }
  Config usual = benches[1].configs.at(0);
  usual.training.steps = Config{}.training.steps;
  EXPECT_EQ(usual, Config{});
}

TEST(CaseBench, FiguresAddUp) {
  const Json result = run_case_bench({.seconds = 0.05});
  ASSERT_EQ(result.size(), 2u);
  for (const Json& row : result) {
    double sum = 0;
    for (const auto& [part, ms] : row.at("parts_ms").items()) sum += ms.get<double>();
    EXPECT_NEAR(row.at("per_second").get<double>() * sum, 1000, 1);
    EXPECT_GT(row.at("cases").get<int>(), 0);
  }
  EXPECT_EQ(case_bench_status(result),
            result[0].at("ratio") < 1 || result[1].at("ratio") < 1 ? 1 : 0);
}

}  // namespace
}  // namespace shardproof::bench

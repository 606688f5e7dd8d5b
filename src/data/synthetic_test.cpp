// ctest: unit
#include "data/synthetic.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/batch.h"
#include "data/data_testing.h"

namespace shardproof {
namespace {

DatasetConfig config_of(std::int64_t samples, double ignored) {
  DatasetConfig config;
  config.samples = samples;
  config.ignored = ignored;
  return config;
}

RC_GTEST_PROP(Synthetic, ASampleIsAFunctionOfSeedAndId, ()) {
  const int length = *rc::gen::inRange(1, 40);
  const int vocabulary = *rc::gen::inRange(2, 300);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const auto config = config_of(*rc::gen::inRange(1, 5000), *rc::gen::element(0.0, 0.1, 0.9));
  const auto data = make_synthetic(config, length, vocabulary, seed);
  const auto id = *rc::gen::inRange<std::int64_t>(0, config.samples);
  const Sample sample = sample_of(*data, id, length);
  RC_ASSERT(sample == sample_of(*make_synthetic(config, length, vocabulary, seed), id, length));
  for (std::size_t i = 0; i < sample.tokens.size(); ++i) {
    RC_ASSERT(sample.tokens[i] >= 0 && sample.tokens[i] < vocabulary);
    RC_ASSERT(sample.positions[i] == static_cast<std::int32_t>(i));
    if (sample.targets[i] == MicroBatch::ignored) continue;
    RC_ASSERT(sample.targets[i] >= 0 && sample.targets[i] < vocabulary);
    if (i + 1 < sample.tokens.size()) RC_ASSERT(sample.targets[i] == sample.tokens[i + 1]);
  }
}

TEST(Synthetic, APrefixDoesNotDependOnTheLength) {
  const auto config = config_of(100, 0.1);
  const Sample longer = sample_of(*make_synthetic(config, 40, 64, 1), 17, 40);
  const Sample shorter = sample_of(*make_synthetic(config, 16, 64, 1), 17, 16);
  EXPECT_TRUE(std::equal(shorter.tokens.begin(), shorter.tokens.end(), longer.tokens.begin()));
  EXPECT_TRUE(std::equal(shorter.targets.begin(), shorter.targets.end(), longer.targets.begin()));
}

// The structure that a model learns: 15 of 16 tokens are those of a few cycles, whatever the row,
// in the same unequal numbers.
TEST(Synthetic, RowsHaveTheSameUnequalFrequencies) {
  const auto data = make_synthetic(config_of(1000, 0), 16, 64, 1);
  std::map<std::int32_t, int> counts;
  for (int id = 0; id < 1000; ++id) {
    const Sample row = sample_of(*data, id, 16);
    for (const auto token : row.tokens) ++counts[token];
  }
  EXPECT_EQ(counts.size(), 64u);  // the open slots reach every token
  std::vector<int> sorted;
  for (const auto& [token, count] : counts) sorted.push_back(count);
  std::sort(sorted.rbegin(), sorted.rend());
  // 6, 3, 2, 2, 1, 1 a row, and of 1,000 open slots some 16 a token.
  const int expected[] = {6000, 3000, 2000, 2000, 1000, 1000};
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_GE(sorted[i], expected[i]);
    EXPECT_LE(sorted[i], expected[i] + 60);
  }
  EXPECT_LE(sorted[6], 60);
}

TEST(Synthetic, SeedsAndIdsGiveDifferentRows) {
  const auto data = make_synthetic(config_of(200, 0), 16, 64, 1);
  std::set<std::vector<std::int32_t>> rows;
  for (int id = 0; id < 200; ++id) rows.insert(sample_of(*data, id, 16).tokens);
  EXPECT_GT(rows.size(), 150u);
  const auto other = make_synthetic(config_of(200, 0), 16, 64, 2);
  EXPECT_NE(sample_of(*data, 0, 16), sample_of(*other, 0, 16));
  EXPECT_NE(data->digest(), other->digest());
}

TEST(Synthetic, IgnoredTargetsAreRaggedAndOfTheRightShare) {
  for (const double share : {0.0, 0.1, 0.5, 0.9}) {
    SCOPED_TRACE(share);
    const auto data = make_synthetic(config_of(4096, share), 16, 64, 1);
    int ignored = 0;
    int none = 0;
    int many = 0;
    for (int id = 0; id < 4096; ++id) {
      const Sample row = sample_of(*data, id, 16);
      const auto count = std::count(row.targets.begin(), row.targets.end(), MicroBatch::ignored);
      ignored += static_cast<int>(count);
      none += count == 0;
      many += count >= 8;
    }
    // Standard error of the mean of 4,096 rows is below 0.005; five of them.
    EXPECT_NEAR(ignored / (4096.0 * 16), share, 0.025);
    if (share == 0.1) {
      EXPECT_GT(none, 4096 * 3 / 4);
      EXPECT_GT(many, 4096 / 20);
    }
  }
}

TEST(Synthetic, TheDigestCoversWhatDeterminesTheSamples) {
  const auto config = config_of(100, 0.1);
  std::set<Digest> digests;
  digests.insert(make_synthetic(config, 16, 64, 1)->digest());
  digests.insert(make_synthetic(config, 17, 64, 1)->digest());
  digests.insert(make_synthetic(config, 16, 65, 1)->digest());
  digests.insert(make_synthetic(config, 16, 64, 2)->digest());
  digests.insert(make_synthetic(config_of(101, 0.1), 16, 64, 1)->digest());
  digests.insert(make_synthetic(config_of(100, 0.2), 16, 64, 1)->digest());
  EXPECT_EQ(digests.size(), 6u);
  digests.insert(make_synthetic(config, 16, 64, 1)->digest());
  EXPECT_EQ(digests.size(), 6u);
  EXPECT_EQ(make_synthetic(config, 16, 64, 1)->tokenizer(), "synthetic/64");
}

TEST(SyntheticDeath, IdsOutsideTheCorpusAreBugs) {
  const auto data = make_synthetic(config_of(4, 0.1), 16, 64, 1);
  EXPECT_DEATH(sample_of(*data, 4, 16), "sample 4 of 4");
  EXPECT_DEATH(sample_of(*data, -1, 16), "sample -1 of 4");
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "data/mixed_dataset.h"

#include <gtest/gtest.h>

#include <set>

#include "base/expect_error.h"
#include "data/data_testing.h"

namespace shardproof {
namespace {

DatasetConfig two_texts(const TemporaryFile& one, const TemporaryFile& other) {
  DatasetConfig config;
  config.sources = {{"one", 3, "text", one.path(), 0}, {"other", 1, "text", other.path(), 0}};
  return config;
}

TEST(MixedDataset, AnIdIsASampleOfOneSource) {
  const TemporaryFile one("abcdefghi"), other("0123456");  // 4 and 3 samples of 2
  const auto mixed = open_dataset(two_texts(one, other), 2, 256, 1);
  EXPECT_EQ(mixed->size(), 7);
  EXPECT_EQ(mixed->tokenizer(), "bytes");
  EXPECT_FALSE(mixed->packed());
  ASSERT_EQ(mixed->sources().size(), 2u);
  EXPECT_EQ(mixed->sources()[0].size, 4);
  EXPECT_EQ(mixed->sources()[1].first, 4);
  EXPECT_EQ(mixed->sources()[1].size, 3);
  EXPECT_EQ(mixed->sources()[1].weight, 1);
  EXPECT_EQ(sample_of(*mixed, 3, 2).tokens, (std::vector<std::int32_t>{'g', 'h'}));
  EXPECT_EQ(sample_of(*mixed, 4, 2).tokens, (std::vector<std::int32_t>{'0', '1'}));
  EXPECT_EQ(sample_of(*mixed, 6, 2).targets, (std::vector<std::int32_t>{'5', '6'}));
}

TEST(MixedDataset, TheDigestIsOfWhatIdsMean) {
  const TemporaryFile one("abcdefghi"), other("0123456"), changed("0123457");
  const DatasetConfig plain = two_texts(one, other);
  const auto digest = [](const DatasetConfig& config, std::uint64_t seed = 1) {
    return open_dataset(config, 2, 256, seed)->digest();
  };
  DatasetConfig weights = plain, order = plain, name = plain, content = plain, fewer = plain;
  weights.sources[0].weight = 9;
  std::swap(order.sources[0], order.sources[1]);
  name.sources[0].name = "two";
  content.sources[1].path = changed.path();
  fewer.sources.pop_back();
  EXPECT_EQ(digest(weights), digest(plain));
  EXPECT_EQ(digest(plain, 2), digest(plain)) << "files do not depend on the seed";
  const std::set<Digest> all{digest(plain), digest(order), digest(name), digest(content),
                             digest(fewer)};
  EXPECT_EQ(all.size(), 5u);
}

// A synthetic source is drawn with its name: two of one size differ, and neither depends on the
// other.
TEST(MixedDataset, SyntheticSourcesDifferByName) {
  DatasetConfig config;
  config.sources = {{"a", 1, "synthetic", "", 8}, {"b", 1, "synthetic", "", 8}};
  const auto mixed = open_dataset(config, 8, 64, 1);
  config.sources.erase(config.sources.begin());
  const auto alone = open_dataset(config, 8, 64, 1);
  EXPECT_NE(sample_of(*mixed, 0, 8), sample_of(*mixed, 8, 8));
  EXPECT_EQ(sample_of(*mixed, 8, 8), sample_of(*alone, 0, 8));
  EXPECT_EQ(mixed->sources()[1].seed, alone->sources()[0].seed);
  EXPECT_NE(mixed->sources()[0].seed, mixed->sources()[1].seed);
}

TEST(MixedDataset, PackedTextsArePackedTogether) {
  const TemporaryFile one("ab\n\ncdefg"), other("01\n\n3456");
  DatasetConfig config = two_texts(one, other);
  config.packed = true;
  const auto mixed = open_dataset(config, 4, 256, 1);
  EXPECT_TRUE(mixed->packed());
  EXPECT_EQ(sample_of(*mixed, 2, 4).targets.back(), -1) << "a document ends in the row";
}

TEST(MixedDataset, RefusesTokenizersThatDiffer) {
  const TemporaryFile text("abcdefghi");
  DatasetConfig config;
  config.sources = {{"a", 1, "synthetic", "", 8}, {"b", 1, "text", text.path(), 0}};
  expect_error(ErrorKind::bad_input,
               {"data.sources", "source b has tokenizer bytes", "expected synthetic/256"},
               [&] { open_dataset(config, 2, 256, 1); });
  config.sources[1].path = "/nowhere";
  expect_error(ErrorKind::bad_input, {"/nowhere"}, [&] { open_dataset(config, 2, 256, 1); });
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "data/dataset.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/expect_error.h"
#include "data/data_testing.h"

namespace shardproof {
namespace {

TEST(Dataset, OpensEachKind) {
  DatasetConfig config;
  EXPECT_EQ(open_dataset(config, 16, 64, 1)->size(), 4096);
  const TemporaryFile text("some text that is long enough");
  config.kind = "text";
  config.path = text.path();
  const auto bytes = open_dataset(config, 8, 256, 1);
  EXPECT_EQ(bytes->size(), 3);
  EXPECT_EQ(bytes->vocabulary(), 256);
  EXPECT_EQ(bytes->tokenizer(), "bytes");
  EXPECT_EQ(bytes->tokenizer_digest(), sha256("bytes"));
  const TemporaryFile tokens(uint16_bytes({1, 2, 3, 4, 5}));
  config.kind = "tokens";
  config.path = tokens.path();
  EXPECT_EQ(open_dataset(config, 2, 64, 1)->size(), 2);
}

TEST(Dataset, TheDigestIsOfContentsAndReadingAndNotOfThePath) {
  const TemporaryFile one(uint16_bytes({1, 2, 3, 4, 5, 6}));
  const TemporaryFile same(uint16_bytes({1, 2, 3, 4, 5, 6}));
  const TemporaryFile other(uint16_bytes({1, 2, 3, 4, 5, 7}));
  DatasetConfig config;
  config.kind = "tokens";
  const auto digest = [&](const TemporaryFile& file, int length, bool packed, int end_token) {
    config.path = file.path();
    config.packed = packed;
    config.end_token = end_token;
    return open_dataset(config, length, 64, 1)->digest();
  };
  EXPECT_EQ(digest(one, 2, false, 0), digest(same, 2, false, 0));
  EXPECT_EQ(digest(one, 2, false, 0), digest(one, 2, false, 3));  // no documents, no end
  const std::set<Digest> all = {digest(one, 2, false, 0), digest(other, 2, false, 0),
                                digest(one, 3, false, 0), digest(one, 2, true, 0),
                                digest(one, 2, true, 3)};
  EXPECT_EQ(all.size(), 5u);
  // One byte of a text.
  const TemporaryFile text("abcdef");
  const TemporaryFile changed("abcdeg");
  config = DatasetConfig();
  config.kind = "text";
  config.path = text.path();
  const Digest before = open_dataset(config, 2, 256, 1)->digest();
  config.path = changed.path();
  EXPECT_NE(open_dataset(config, 2, 256, 1)->digest(), before);
}

using Change = std::function<void(DatasetConfig&)>;

void expect_refusal(const Change& change, int length, int vocabulary,
                    std::initializer_list<std::string_view> parts) {
  DatasetConfig config;
  change(config);
  expect_error(ErrorKind::bad_input, parts, [&] { open_dataset(config, length, vocabulary, 1); });
}

TEST(Dataset, RefusesImpossibleConfigs) {
  const Change nothing = [](DatasetConfig&) {};
  expect_refusal(nothing, 0, 64, {"sequence length of 0", ">= 1"});
  expect_refusal(nothing, 16, 0, {"vocabulary of 0", ">= 1"});
  expect_refusal([](auto& c) { c.kind = "images"; }, 16, 64,
                 {"kind \"images\"", "synthetic, text or tokens"});
  expect_refusal([](auto& c) { c.samples = 0; }, 16, 64, {"0 samples", ">= 1"});
  expect_refusal([](auto& c) { c.ignored = 1; }, 16, 64, {"ignored 1", "< 1"});
  expect_refusal([](auto& c) { c.ignored = -0.1; }, 16, 64, {"ignored -0.1"});
  expect_refusal([](auto& c) { c.packed = true; }, 16, 64, {"packed with kind synthetic"});
}

TEST(Dataset, RefusesVocabulariesThatDoNotFit) {
  const TemporaryFile text("some text");
  expect_refusal(
      [&](auto& c) {
        c.kind = "text";
        c.path = text.path();
      },
      4, 255, {"vocabulary of 255", "at least 256"});
  expect_refusal(
      [&](auto& c) {
        c.kind = "tokens";
        c.path = text.path();
        c.packed = true;
        c.end_token = 64;
      },
      4, 64, {"end_token 64", "below the vocabulary of 64"});
}

}  // namespace
}  // namespace shardproof

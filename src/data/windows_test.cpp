// ctest: unit
#include "data/windows.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <optional>

#include "base/batch.h"
#include "base/expect_error.h"
#include "data/data_testing.h"

namespace shardproof {
namespace {

using Row = std::vector<std::int32_t>;
constexpr std::int32_t none = MicroBatch::ignored;

std::shared_ptr<const Dataset> text_of(const std::string& text, int length, bool packed) {
  DatasetConfig config;
  config.kind = "text";
  config.packed = packed;
  const TemporaryFile file(text);  // stays mapped after it is removed
  config.path = file.path();
  return open_dataset(config, length, 256, 1);
}

std::shared_ptr<const Dataset> tokens_of(const std::vector<int>& tokens, int length,
                                         std::optional<int> end_token) {
  DatasetConfig config;
  config.kind = "tokens";
  config.packed = end_token.has_value();
  config.end_token = end_token.value_or(0);
  const TemporaryFile file(uint16_bytes(tokens));
  config.path = file.path();
  return open_dataset(config, length, 100, 1);
}

TEST(Windows, TargetsAreTheNextTokens) {
  const auto data = tokens_of({10, 11, 12, 13, 14, 15, 16, 17}, 3, std::nullopt);
  ASSERT_EQ(data->size(), 2);  // seven targets: two rows of three, one left over
  const Sample first = sample_of(*data, 0, 3);
  EXPECT_EQ(first.tokens, (Row{10, 11, 12}));
  EXPECT_EQ(first.targets, (Row{11, 12, 13}));
  EXPECT_EQ(first.positions, (Row{0, 1, 2}));
  const Sample second = sample_of(*data, 1, 3);
  EXPECT_EQ(second.tokens, (Row{13, 14, 15}));
  EXPECT_EQ(second.targets, (Row{14, 15, 16}));
  EXPECT_FALSE(data->packed());
  EXPECT_EQ(data->tokenizer(), "tokens");
}

TEST(Windows, TheSmallestFileIsOneSampleAndItsTarget) {
  EXPECT_EQ(text_of("abcd", 3, false)->size(), 1);
  expect_error(ErrorKind::bad_input, {"holds 3 tokens; expected at least 4", "a sequence of 3"},
               [] { text_of("abc", 3, false); });
}

TEST(Windows, PackedTokensRestartAtEachDocument) {
  // Documents: 1 2 0 | 3 0 | 4 5 6 7 0 | 8 9
  const auto data = tokens_of({1, 2, 0, 3, 0, 4, 5, 6, 7, 0, 8, 9, 9}, 6, 0);
  ASSERT_TRUE(data->packed());
  ASSERT_EQ(data->size(), 2);
  const Sample first = sample_of(*data, 0, 6);
  EXPECT_EQ(first.tokens, (Row{1, 2, 0, 3, 0, 4}));
  EXPECT_EQ(first.targets, (Row{2, 0, none, 0, none, 5}));
  EXPECT_EQ(first.positions, (Row{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(first.documents, (Row{0, 0, 0, 1, 1, 2}));
  const Sample second = sample_of(*data, 1, 6);  // goes on inside the third document
  EXPECT_EQ(second.tokens, (Row{5, 6, 7, 0, 8, 9}));
  EXPECT_EQ(second.targets, (Row{6, 7, 0, none, 9, 9}));
  EXPECT_EQ(second.positions, (Row{0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(second.documents, (Row{0, 0, 0, 0, 1, 1}));
}

TEST(Windows, ADocumentThatEndsWithTheRowHasNoTarget) {
  const auto data = tokens_of({1, 2, 7, 3, 4, 5}, 3, 7);
  EXPECT_EQ(sample_of(*data, 0, 3).targets, (Row{2, 7, none}));
}

TEST(Windows, TextDocumentsEndAfterABlankLine) {
  const auto data = text_of("a\n\nbc\nd\n\n\n\nefg", 13, true);
  const Sample row = sample_of(*data, 0, 13);
  EXPECT_EQ(row.documents, (Row{0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2}));
  EXPECT_EQ(row.positions, (Row{0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1}));
  EXPECT_EQ(row.targets[2], none);
  EXPECT_EQ(row.targets[7], '\n');  // inside the run of newlines
  EXPECT_EQ(row.targets[10], none);
}

// What packing promises, for any documents: a target is the next token of the same document or
// ignored, positions count within the document, numbers grow by one at each border.
RC_GTEST_PROP(Windows, PackedRowsKeepDocumentsApart, ()) {
  const int length = *rc::gen::inRange(1, 12);
  auto tokens = *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 4));
  RC_PRE(static_cast<int>(tokens.size()) > length);
  const auto data = tokens_of(tokens, length, 0);
  const auto plain = tokens_of(tokens, length, std::nullopt);
  RC_ASSERT(data->size() == plain->size());
  for (std::int64_t id = 0; id < data->size(); ++id) {
    const Sample row = sample_of(*data, id, length);
    const Sample whole = sample_of(*plain, id, length);
    RC_ASSERT(row.tokens == whole.tokens);
    RC_ASSERT(row.documents[0] == 0 && row.positions[0] == 0);
    for (std::size_t i = 0; i < row.tokens.size(); ++i) {
      const bool ends = row.tokens[i] == 0;
      RC_ASSERT(row.targets[i] == (ends ? none : whole.targets[i]));
      if (i + 1 == row.tokens.size()) break;
      RC_ASSERT(row.documents[i + 1] == row.documents[i] + (ends ? 1 : 0));
      RC_ASSERT(row.positions[i + 1] == (ends ? 0 : row.positions[i] + 1));
    }
  }
}

TEST(WindowsDeath, IdsOutsideTheFileAreBugs) {
  const auto data = text_of("abcd", 3, false);
  EXPECT_DEATH(sample_of(*data, 1, 3), "sample 1 of 1");
}

}  // namespace
}  // namespace shardproof

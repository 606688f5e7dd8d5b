// ctest: unit
// block_text: reading is the inverse of writing, and nothing else is read.
#include "checkpoint/block_text.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;

const std::vector<Digest> three = {sha256("a"), sha256("b"), sha256("c")};

TEST(BlockText, IsTheDigestsInHex) {
  EXPECT_EQ(blocks_text({}), "");
  EXPECT_EQ(blocks_text(three), three[0].hex() + three[1].hex() + three[2].hex());
  EXPECT_EQ(blocks_from_text(blocks_text(three), "m"), three);
  EXPECT_TRUE(blocks_from_text("", "m").empty());
}

TEST(BlockText, EveryOtherCharacterIsRefusedAtEveryPlace) {
  const std::string good = blocks_text(three);
  for (int c = 0; c < 256; ++c) {
    const bool digit = ('0' <= c && c <= '9') || ('a' <= c && c <= 'f');
    for (const std::size_t at :
         {std::size_t{0}, std::size_t{1}, std::size_t{97}, good.size() - 1}) {
      std::string text = good;
      text[at] = static_cast<char>(c);
      if (digit) {
        EXPECT_EQ(blocks_text(blocks_from_text(text, "m")), text);
        continue;
      }
      const Error error = error_of([&] { blocks_from_text(text, "entry 3"); });
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      EXPECT_EQ(error.place(), "entry 3");
      EXPECT_TRUE(contains(error.what(), "lower-case hex")) << error.what();
    }
  }
  for (const std::size_t size : {std::size_t{1}, std::size_t{63}, good.size() - 1}) {
    const Error error = error_of([&] { blocks_from_text(good.substr(0, size), "m"); });
    EXPECT_TRUE(contains(error.what(), "expected 64 a block")) << error.what();
  }
}

TEST(BlockText, IsTakenOutOfJson) {
  const std::string text = R"({"a":1,"blocks":"0123","b":[{"blocks":""},{"blocks":"zz"}]})";
  const BlocksApart apart = take_blocks_apart(text);
  EXPECT_EQ(apart.json, R"({"a":1,"blocks":"","b":[{"blocks":""},{"blocks":""}]})");
  EXPECT_EQ(apart.blocks, (std::vector<std::string_view>{"0123", "", "zz"}));
  for (const std::string other : {"", "{}", R"({"blocks": "01"})", R"({"blocks":3})",
                                  R"({"blocks":"never closed)", R"({"blocks)"}) {
    EXPECT_EQ(take_blocks_apart(other).json, other);
    EXPECT_TRUE(take_blocks_apart(other).blocks.empty());
  }
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "parallel/bucket_map.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "model/gpt_shape.h"

namespace shardproof {
namespace {

PieceTable table_of(int layers) {
  GptShape shape;
  shape.layers = layers;
  shape.tensor_pieces = 1;
  shape.sequence_pieces = 1;
  return PieceTable(gpt_pieces(shape));
}

TEST(BucketMap, TheHeadIsReadyFirstAndTheEmbeddingLast) {
  const PieceTable table = table_of(11);  // names that do not sort by number
  std::vector<std::string> names;
  for (const int i : ready_order(table)) {
    names.push_back(table.pieces()[static_cast<std::size_t>(i)].name);
  }
  EXPECT_EQ(names.front(), "head.weight");
  EXPECT_EQ(names[3], "blocks.10.mlp.down.bias");
  EXPECT_EQ(names.back(), "pos.weight");
  const auto at = [&](const char* name) { return std::ranges::find(names, name); };
  EXPECT_LT(at("blocks.10.ln1.bias"), at("blocks.9.mlp.down.weight"));
  EXPECT_LT(at("blocks.2.ln1.weight"), at("blocks.1.mlp.down.weight"));
}

RC_GTEST_PROP(BucketMap, BucketsKeepTheOrderAndAreFullButTheLast, ()) {
  const PieceTable table = table_of(*rc::gen::inRange(1, 4));
  const auto bytes = *rc::gen::inRange<std::int64_t>(1, 200'000);
  std::vector<int> all;
  const auto buckets = bucket_map(table, bytes);
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    std::int64_t held = 0, before_last = 0;
    for (const int i : buckets[b]) {
      before_last = held;
      held += table.range(i).size() * 4;
      all.push_back(i);
    }
    RC_ASSERT(b + 1 == buckets.size() || held >= bytes);
    RC_ASSERT(before_last < bytes);
  }
  RC_ASSERT(all == ready_order(table));
}

TEST(BucketMapDeathTest, ABucketOfNothingIsABug) {
  EXPECT_DEATH(bucket_map(table_of(1), 0), "0 < bucket_bytes");
}

}  // namespace
}  // namespace shardproof

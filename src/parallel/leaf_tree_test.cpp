// ctest: unit
// Ranks that own a part of the leaves, and the arenas of micro-batches. (Whole trees over S and M
// are compared across layouts in mesh_parallel_test.cpp.)
#include "parallel/leaf_tree.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/batch_tree.h"

namespace shardproof {
namespace {

PieceTable two_pieces() {
  auto pieces = cut("a", {3}, -1, 1);
  const auto more = cut("b", {2}, -1, 1);
  pieces.insert(pieces.end(), more.begin(), more.end());
  return PieceTable(pieces);
}

at::Tensor values(std::int64_t count, float value) {
  return at::full({count}, value, at::kFloat);
}

std::vector<at::Tensor> arenas(std::size_t count) {
  std::vector<at::Tensor> out;
  for (std::size_t k = 0; k < count; ++k) out.push_back(at::zeros({5}, at::kFloat));
  return out;
}

// Leaves of {0, 1} and {3} of tree(4), in an order that is not theirs; the other piece's are {2}.
TEST(LeafTree, EachOwnedSubtreeHasItsArena) {
  const PieceTable table = two_pieces();
  LeafTree tree(table, 4, {{{0, 2}, {3, 4}}, {{2, 3}}});
  ASSERT_EQ(tree.arenas(), 2u);
  for (int again = 0; again < 2; ++again) {
    const auto out = arenas(2);
    tree.leaf(0, 3, values(3, 8), out);
    tree.leaf(0, 1, values(3, 2), out);
    tree.leaf(1, 2, values(2, 4), out);
    tree.leaf(0, 0, values(3, 1), out);
    tree.finish(out);
    const float* first = out[0].const_data_ptr<float>();
    EXPECT_EQ(std::vector<float>(first, first + 5), (std::vector<float>{3, 3, 3, 4, 4}));
    const float* second = out[1].const_data_ptr<float>();
    EXPECT_EQ(std::vector<float>(second, second + 5), (std::vector<float>{8, 8, 8, 0, 0}));
  }
}

TEST(LeafTree, AnAbsentLeafIsSkippedAndNotAddedAsZero) {
  const PieceTable table(cut("a", {1}, -1, 1));
  LeafTree tree(table, 2, {{{0, 2}}});
  const std::vector<at::Tensor> out{at::zeros({1}, at::kFloat)};
  tree.leaf(0, 1, values(1, -0.0f), out);
  tree.finish(out);
  EXPECT_TRUE(std::signbit(out[0].const_data_ptr<float>()[0]));
}

TEST(LeafTreeDeathTest, RefusesLeavesOfOthersAndMissingOnes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const PieceTable table = two_pieces();
  LeafTree tree(table, 4, {{{0, 2}}, {{0, 2}}});
  const auto out = arenas(1);
  EXPECT_DEATH(tree.leaf(0, 2, values(3, 1), out), "another rank arrived for a");
  EXPECT_DEATH(tree.finish(out), "no gradient arrived for a");
  tree.leaf(0, 0, values(3, 1), out);
  tree.clear();
  EXPECT_DEATH(tree.finish(out), "no gradient arrived for a");
}

TEST(BatchTree, SiblingsMeetAndArenasAreKept) {
  BatchTree tree(2, 6);
  for (int step = 0; step < 3; ++step) {
    for (const int m : {0, 1, 2, 3, 5}) {
      at::Tensor arena = tree.take();
      arena.fill_(static_cast<double>(1 << m));
      tree.add(m, std::move(arena));
    }
    ASSERT_EQ(tree.subtrees().size(), 2u);
    EXPECT_EQ(tree.subtrees().at(Node{0, 4}).const_data_ptr<float>()[1], 15);
    EXPECT_EQ(tree.subtrees().at(Node{5, 6}).const_data_ptr<float>()[0], 32);
    EXPECT_EQ(tree.live_bytes(), 3 * 8);  // 1 + log2 of 4 at once
    tree.clear();
    EXPECT_TRUE(tree.subtrees().empty());
  }
}

TEST(BatchTreeDeathTest, RefusesWrongMicroBatches) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  BatchTree tree(2, 2);
  EXPECT_DEATH(tree.add(2, tree.take()), "3 vs 2");
  EXPECT_DEATH(tree.add(0, at::zeros({3}, at::kFloat)), "3 vs 2");
  tree.add(0, tree.take());
  EXPECT_DEATH(tree.add(0, tree.take()), "twice");
}

}  // namespace
}  // namespace shardproof

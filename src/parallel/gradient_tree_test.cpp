// ctest: unit
#include "parallel/gradient_tree.h"

#include <ATen/ops/full.h>
#include <ATen/ops/min.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/philox.h"

namespace shardproof {
namespace {

using Values = std::vector<float>;

PieceTable small_table() {
  std::vector<PieceSpec> pieces = cut("a.weight", {5, 3}, 0, 2);
  const auto more = cut("b.bias", {7}, -1, 1);
  pieces.insert(pieces.end(), more.begin(), more.end());
  return PieceTable(pieces);
}

// A leaf with magnitudes that make every order of additions differ.
at::Tensor leaf_of(const PieceTable& table, int piece, int m, int s, std::uint64_t seed) {
  const std::int64_t count = table.range(piece).size();
  at::Tensor out = at::ones({count}, at::kFloat);
  const Random random(seed, Purpose::test, static_cast<std::uint32_t>(piece * 10000 + m * 100 + s));
  for (std::int64_t i = 0; i < count; ++i) {
    out.data_ptr<float>()[i] =
        std::ldexp(random.normal(static_cast<std::uint64_t>(i)),
                   static_cast<int>(random.below(20, static_cast<std::uint64_t>(i))));
  }
  return out;
}

Values add(const Values& left, const Values& right) {
  Values out(left.size());
  for (std::size_t i = 0; i < left.size(); ++i) out[i] = left[i] + right[i];
  return out;
}

// The sum of micro-batches [node.lo, node.hi) of a piece, straight from the definition.
Values direct(const PieceTable& table, int piece, Node node, int pieces, std::uint64_t seed,
              int micro_batches) {
  std::map<Node, Values> arenas;
  for (int m = node.lo; m < node.hi; ++m) {
    std::map<Node, Values> leaves;
    for (int s = 0; s < pieces; ++s) {
      const at::Tensor leaf = leaf_of(table, piece, m, s, seed);
      leaves[{s, s + 1}] = Values(leaf.data_ptr<float>(), leaf.data_ptr<float>() + leaf.numel());
    }
    arenas[{m, m + 1}] = *tree_sum(leaves, 0, pieces, add);
  }
  return *tree_sum(arenas, 0, micro_batches, add);
}

bool same_bits(const float* a, const Values& b) {
  return std::memcmp(a, b.data(), b.size() * sizeof(float)) == 0;
}

RC_GTEST_PROP(GradientTree, EqualsDirectTreeSums, ()) {
  const int micro_batches = *rc::gen::inRange(1, 13);
  const int pieces = *rc::gen::inRange(1, 6);
  const int lo = *rc::gen::inRange(0, micro_batches);
  const int hi = *rc::gen::inRange(lo + 1, micro_batches + 1);
  const auto seed = *rc::gen::arbitrary<std::uint64_t>();
  const PieceTable table = small_table();
  GradientTree tree(table, micro_batches, pieces);

  std::vector<std::pair<int, int>> uses;  // (piece, s), in the order a model may produce them
  for (int p = 0; p < static_cast<int>(table.pieces().size()); ++p) {
    for (int s = 0; s < pieces; ++s) uses.emplace_back(p, s);
  }
  std::vector<int> owned(static_cast<std::size_t>(hi - lo));
  std::iota(owned.begin(), owned.end(), lo);
  for (const int m : owned) {
    const Random random(seed, Purpose::test, 1, static_cast<std::uint32_t>(m));
    for (std::size_t i = uses.size(); i > 1; --i) std::swap(uses[i - 1], uses[random.below(i, i)]);
    for (const auto& [p, s] : uses) tree.leaf(p, s, leaf_of(table, p, m, s, seed));
    tree.end_micro_batch(m);
  }

  const auto expected = owned_subtrees(owned, micro_batches);
  RC_ASSERT(tree.subtrees().size() == expected.size());
  for (const Node node : expected) {
    const at::Tensor& arena = tree.subtrees().at(node);
    for (int p = 0; p < static_cast<int>(table.pieces().size()); ++p) {
      RC_ASSERT(same_bits(arena.data_ptr<float>() + table.range(p).lo,
                          direct(table, p, node, pieces, seed, micro_batches)));
    }
  }
}

// All pieces of one micro-batch, with one value.
void fill(GradientTree& tree, const PieceTable& table, int m, float value) {
  for (int p = 0; p < static_cast<int>(table.pieces().size()); ++p) {
    tree.leaf(p, 0, at::full({table.range(p).size()}, value, at::kFloat));
  }
  tree.end_micro_batch(m);
}

TEST(GradientTree, AbsentLeafIsSkippedNotAddedAsZero) {
  const PieceTable table = small_table();
  GradientTree tree(table, 1, 3);
  fill(tree, table, 0, -0.0f);  // sequence pieces 1 and 2 send nothing
  const float* sum = tree.subtrees().at({0, 1}).data_ptr<float>();
  for (std::int64_t i = 0; i < table.elements(); ++i) {
    EXPECT_EQ(std::bit_cast<std::uint32_t>(sum[i]), 0x80000000u) << i;
  }
}

TEST(GradientTree, KeepsLogarithmicallyManyArenasAndReusesThem) {
  const PieceTable table = small_table();
  const std::int64_t arena = table.elements() * 4;
  GradientTree tree(table, 8, 1);
  for (int step = 0; step < 3; ++step) {
    for (int m = 0; m < 8; ++m) fill(tree, table, m, 1.0f);
    EXPECT_EQ(tree.live_bytes(), 4 * arena) << "1 + log2(8) arenas in step " << step;
    ASSERT_EQ(tree.subtrees().size(), 1u);
    EXPECT_EQ(tree.subtrees().at({0, 8}).data_ptr<float>()[0], 8.0f);
    tree.clear();
    EXPECT_TRUE(tree.subtrees().empty());
  }
}

TEST(GradientTree, TheSpareArenaIsNotTheSumAndIsKept) {
  const PieceTable table = small_table();
  const std::int64_t arena = table.elements() * 4;
  for (const int micro_batches : {1, 4}) {
    GradientTree tree(table, micro_batches, 1);
    for (int step = 0; step < 3; ++step) {
      for (int m = 0; m < micro_batches; ++m) fill(tree, table, m, 1.0f);
      const std::int64_t before = tree.live_bytes();
      at::Tensor spare = tree.spare();
      EXPECT_EQ(spare.numel(), table.elements());
      spare.fill_(-3.0f);
      const at::Tensor sum = tree.subtrees().at({0, micro_batches});
      EXPECT_EQ(sum.min().item<float>(), static_cast<float>(micro_batches));
      const bool first_of_all = micro_batches == 1 && step == 0;
      EXPECT_EQ(tree.live_bytes() - before, first_of_all ? arena : 0);
      tree.clear();
    }
  }
}

TEST(GradientTree, DoesNotWriteToLeaves) {
  const PieceTable table = small_table();
  GradientTree tree(table, 1, 2);
  const at::Tensor left = at::full({table.range(0).size()}, 1.0f, at::kFloat);
  const at::Tensor right = at::full({table.range(0).size()}, 2.0f, at::kFloat);
  tree.leaf(0, 1, right);
  tree.leaf(0, 0, left);
  EXPECT_EQ(left.data_ptr<float>()[0], 1.0f);
  EXPECT_EQ(right.data_ptr<float>()[0], 2.0f);
}

TEST(GradientTreeDeathTest, RefusesWrongLeaves) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const PieceTable table = small_table();
  GradientTree tree(table, 2, 1);
  EXPECT_DEATH(tree.leaf(0, 0, at::ones({1}, at::kFloat)), "1 vs");
  EXPECT_DEATH(tree.leaf(0, 0, at::ones({table.range(0).size()}, at::kDouble)), "contiguous fp32");
  EXPECT_DEATH(
      {
        const at::Tensor leaf = at::ones({table.range(0).size()}, at::kFloat);
        tree.leaf(0, 0, leaf);
        tree.leaf(0, 0, leaf);
      },
      "twice");
  EXPECT_DEATH(tree.end_micro_batch(0), "no gradient arrived for a.weight");
  EXPECT_DEATH(tree.end_micro_batch(2), "2 vs 2");
}

}  // namespace
}  // namespace shardproof

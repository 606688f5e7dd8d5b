// ctest: unit
#include "base/tree.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

namespace shardproof {
namespace {

const auto add_text = [](const std::string& a, const std::string& b) {
  return "(" + a + "+" + b + ")";
};

std::map<Node, std::string> all_leaves(int n) {
  std::map<Node, std::string> leaves;
  for (int i = 0; i < n; ++i) leaves[{i, i + 1}] = std::to_string(i);
  return leaves;
}

TEST(Tree, SplitsAtTheLargestPowerOfTwoBelow) {
  EXPECT_EQ(tree_split(0, 2), 1);
  EXPECT_EQ(tree_split(0, 3), 2);
  EXPECT_EQ(tree_split(0, 4), 2);
  EXPECT_EQ(tree_split(0, 5), 4);
  EXPECT_EQ(tree_split(0, 12), 8);
  EXPECT_EQ(tree_split(8, 12), 10);
  EXPECT_EQ(tree_split(0, 1 << 30), 1 << 29);
}

TEST(TreeDeathTest, ALeafHasNoSplit) {
  EXPECT_DEATH(tree_split(3, 4), "2 <= hi - lo");
  EXPECT_DEATH(tree_split(3, 3), "2 <= hi - lo");
}

TEST(Tree, SumsInTheWrittenOrder) {
  EXPECT_EQ(tree_sum(all_leaves(1), 0, 1, add_text), "0");
  EXPECT_EQ(tree_sum(all_leaves(4), 0, 4, add_text), "((0+1)+(2+3))");
  EXPECT_EQ(tree_sum(all_leaves(7), 0, 7, add_text), "(((0+1)+(2+3))+((4+5)+6))");
  EXPECT_EQ(tree_sum(all_leaves(0), 0, 0, add_text), std::nullopt);
}

TEST(Tree, AnAbsentLeafIsSkipped) {
  auto leaves = all_leaves(4);
  leaves.erase({1, 2});
  EXPECT_EQ(tree_sum(leaves, 0, 4, add_text), "(0+(2+3))");
  leaves.erase({0, 1});
  EXPECT_EQ(tree_sum(leaves, 0, 4, add_text), "(2+3)");
  // -0 stays -0 next to an absent leaf; adding +0 for it would give +0.
  const std::map<Node, float> lonely = {{{0, 1}, -0.0f}};
  const auto sum = tree_sum(lonely, 0, 2, [](float a, float b) { return a + b; });
  ASSERT_TRUE(sum.has_value());
  EXPECT_TRUE(std::signbit(*sum));
}

// The law that lets any rank own any leaves: subtrees summed apart and added later give the one
// sum.
RC_GTEST_PROP(Tree, WhoOwnsWhatChangesNothing, ()) {
  const int n = *rc::gen::inRange(1, 40);
  const int ranks = *rc::gen::inRange(1, 7);
  std::vector<std::vector<int>> owned(ranks);
  for (int leaf = 0; leaf < n; ++leaf) owned[*rc::gen::inRange(0, ranks)].push_back(leaf);
  const auto leaves = all_leaves(n);
  std::map<Node, std::string> parts;
  for (const auto& mine : owned) {
    for (const Node node : owned_subtrees(mine, n)) {
      parts[node] = *tree_sum(leaves, node.lo, node.hi, add_text);
    }
  }
  RC_ASSERT(tree_sum(parts, 0, n, add_text) == tree_sum(leaves, 0, n, add_text));
}

RC_GTEST_PROP(Tree, OwnedSubtreesCoverExactlyAndAreMaximal, ()) {
  const int n = *rc::gen::inRange(1, 70);
  std::vector<int> owned;
  for (int leaf = 0; leaf < n; ++leaf) {
    if (*rc::gen::inRange(0, 4) != 0) owned.push_back(leaf);
  }
  std::vector<int> shuffled = owned;
  std::reverse(shuffled.begin(), shuffled.end());
  const auto nodes = owned_subtrees(shuffled, n);
  RC_ASSERT(nodes == owned_subtrees(owned, n));
  std::vector<int> covered;
  for (const Node node : nodes) {
    for (int leaf = node.lo; leaf < node.hi; ++leaf) covered.push_back(leaf);
    if (const auto other = sibling(node, n)) {
      RC_ASSERT(std::find(nodes.begin(), nodes.end(), *other) == nodes.end());
      RC_ASSERT(sibling(*other, n) == node);
      RC_ASSERT(parent(node, n) == parent(*other, n));
      const Node above = parent(node, n);
      RC_ASSERT(above.lo == std::min(node.lo, other->lo));
      RC_ASSERT(above.hi == std::max(node.hi, other->hi));
    } else {
      RC_ASSERT(node == (Node{0, n}));
    }
  }
  RC_ASSERT(covered == owned);
}

TEST(Tree, OwnedSubtreesOfTypicalShares) {
  EXPECT_EQ(owned_subtrees({0, 1, 2}, 12), (std::vector<Node>{{0, 2}, {2, 3}}));
  EXPECT_EQ(owned_subtrees({3, 4, 5}, 12), (std::vector<Node>{{3, 4}, {4, 6}}));
  EXPECT_EQ(owned_subtrees({4, 5, 6, 7}, 8), (std::vector<Node>{{4, 8}}));
  EXPECT_TRUE(owned_subtrees({}, 5).empty());
  EXPECT_TRUE(owned_subtrees({}, 0).empty());
}

TEST(TreeDeathTest, BadLeavesAndNodesAreBugs) {
  EXPECT_DEATH(owned_subtrees({1, 1}, 4), "leaf 1 twice");
  EXPECT_DEATH(owned_subtrees({4}, 4), "tree\\(0, 4\\)");
  EXPECT_DEATH(owned_subtrees({-1}, 4), "tree\\(0, 4\\)");
  EXPECT_DEATH(sibling({1, 3}, 4), "\\[1, 3\\) of tree\\(0, 4\\)");
  EXPECT_DEATH(parent({0, 4}, 4), "below the root");
}

}  // namespace
}  // namespace shardproof

// tree: the canonical order of a sum over n pieces. tree(lo, hi) splits at lo + the largest power
// of two below hi - lo. A rank sums the maximal complete subtrees of the leaves it owns; the owner
// of the result adds the subtrees of all ranks in this order, so the bits do not depend on who
// owned what. An absent leaf is skipped, never added as +0 (-0 + 0 = +0). Thread rule: pure.
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace shardproof {

// A subtree: the leaves lo <= i < hi.
struct Node {
  int lo = 0;
  int hi = 0;
  auto operator<=>(const Node&) const = default;
};

int tree_split(int lo, int hi);  // precondition: hi - lo >= 2

// The maximal complete subtrees of tree(0, n) whose leaves are all in `owned` (any order, no
// repeats), in ascending order of lo.
std::vector<Node> owned_subtrees(const std::vector<int>& owned, int n);

// The sibling of a node in tree(0, n), or nothing for the root. Precondition: node is in the tree.
std::optional<Node> sibling(Node node, int n);
Node parent(Node node, int n);  // precondition: not the root

// Adds up whatever `parts` holds under (lo, hi): parts maps nodes to values; a leaf that no part
// covers is absent. `add(left, right)` must return left + right. Empty when nothing is present.
template <typename T, typename Add>
std::optional<T> tree_sum(const std::map<Node, T>& parts, int lo, int hi, const Add& add) {
  if (auto found = parts.find(Node{lo, hi}); found != parts.end()) return found->second;
  if (hi - lo <= 1) return std::nullopt;
  const int middle = tree_split(lo, hi);
  auto left = tree_sum(parts, lo, middle, add);
  auto right = tree_sum(parts, middle, hi, add);
  if (!left) return right;
  if (!right) return left;
  return add(*left, *right);
}

}  // namespace shardproof

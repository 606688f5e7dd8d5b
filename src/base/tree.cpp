// tree: walks of tree(0, n) from its root; a tree is never stored.
#include "base/tree.h"

#include <bit>
#include <string>

#include "base/check.h"

namespace shardproof {
namespace {

std::string print(Node node, int n) {
  return "[" + std::to_string(node.lo) + ", " + std::to_string(node.hi) + ") of tree(0, " +
         std::to_string(n) + ")";
}

// The node's parent; SP_CHECK: the node is in tree(0, n) and is not its root.
Node find_parent(Node node, int n) {
  Node at{0, n};
  while (at.hi - at.lo >= 2) {
    const int middle = tree_split(at.lo, at.hi);
    const Node left{at.lo, middle};
    const Node right{middle, at.hi};
    if (node == left || node == right) return at;
    at = node.lo < middle ? left : right;
  }
  check_failed("node is below the root", __FILE__, __LINE__, print(node, n));
}

// count[i]: how many leaves below i are owned.
void collect(const std::vector<int>& count, Node node, std::vector<Node>& out) {
  const int present = count[node.hi] - count[node.lo];
  if (present == 0) return;
  if (present == node.hi - node.lo) {
    out.push_back(node);
    return;
  }
  const int middle = tree_split(node.lo, node.hi);
  collect(count, {node.lo, middle}, out);
  collect(count, {middle, node.hi}, out);
}

}  // namespace

int tree_split(int lo, int hi) {
  SP_CHECK_LE(2, hi - lo);
  return lo + static_cast<int>(std::bit_floor(static_cast<unsigned>(hi - lo - 1)));
}

std::vector<Node> owned_subtrees(const std::vector<int>& owned, int n) {
  std::vector<int> count(n + 1, 0);
  for (const int leaf : owned) {
    SP_CHECK(0 <= leaf && leaf < n, print({leaf, leaf + 1}, n));
    SP_CHECK(count[leaf + 1] == 0, "leaf " + std::to_string(leaf) + " twice");
    count[leaf + 1] = 1;
  }
  for (int i = 0; i < n; ++i) count[i + 1] += count[i];
  std::vector<Node> out;
  collect(count, {0, n}, out);
  return out;
}

Node parent(Node node, int n) {
  return find_parent(node, n);
}

std::optional<Node> sibling(Node node, int n) {
  if (node == Node{0, n}) return std::nullopt;
  const Node above = find_parent(node, n);
  return node.lo == above.lo ? Node{node.hi, above.hi} : Node{above.lo, node.lo};
}

}  // namespace shardproof

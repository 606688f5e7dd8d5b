// leaf_tree: leaves meet their siblings as they arrive.
#include "parallel/leaf_tree.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "base/check.h"
#include "comm/canonical.h"

namespace shardproof {
namespace {

// out = left + right; `out` overlaps neither.
void add(float* out, const at::Tensor& left, const at::Tensor& right) {
  canonical::add(out, left.const_data_ptr<float>(), right.const_data_ptr<float>(),
                 static_cast<std::size_t>(left.numel()), Dtype::f32);
}

}  // namespace

LeafTree::LeafTree(const PieceTable& table, int sequence_pieces,
                   std::vector<std::vector<Node>> nodes)
    : table_(table), sequence_pieces_(sequence_pieces) {
  SP_CHECK_EQ(nodes.size(), table.pieces().size());
  for (std::vector<Node>& of_piece : nodes) {
    arenas_ = std::max(arenas_, of_piece.size());
    nodes_ += of_piece.size();
    std::vector<bool> complete(of_piece.size(), false);
    pieces_.push_back({std::move(of_piece), std::move(complete), {}});
  }
}

void LeafTree::leaf(int piece_index, int sequence_piece, const at::Tensor& gradient,
                    const std::vector<at::Tensor>& arenas) {
  Piece& piece = pieces_.at(static_cast<std::size_t>(piece_index));
  const std::string& name = table_.pieces()[static_cast<std::size_t>(piece_index)].name;
  SP_CHECK_EQ(gradient.numel(), table_.range(piece_index).size());
  SP_CHECK(gradient.is_contiguous() && gradient.scalar_type() == at::kFloat,
           "a gradient leaf must be contiguous fp32");
  const auto home = std::find_if(piece.nodes.begin(), piece.nodes.end(), [&](Node node) {
    return node.lo <= sequence_piece && sequence_piece < node.hi;
  });
  SP_CHECK(home != piece.nodes.end(), "a leaf of another rank arrived for " + name);
  const auto n = static_cast<std::size_t>(home - piece.nodes.begin());
  SP_CHECK(!piece.complete[n], "a leaf arrived twice for " + name);

  ++arrived_;
  Partial mine{Node{sequence_piece, sequence_piece + 1}, gradient};
  while (mine.node != *home) {
    const Node other = *sibling(mine.node, sequence_pieces_);
    const auto found = std::find_if(piece.waiting.begin(), piece.waiting.end(),
                                    [&](const Partial& part) { return part.node == other; });
    if (found == piece.waiting.end()) {
      piece.waiting.push_back(std::move(mine));
      return;
    }
    const bool mine_is_left = mine.node.lo < other.lo;
    const at::Tensor left = mine_is_left ? mine.sum : found->sum;
    const at::Tensor right = mine_is_left ? found->sum : mine.sum;
    piece.waiting.erase(found);
    Partial joined{parent(mine.node, sequence_pieces_), {}};
    if (joined.node == *home) {  // straight into its place
      add(slot(piece_index, n, arenas), left, right);
      piece.complete[n] = true;
      ++completed_;
      return;
    }
    joined.sum = at::empty({gradient.numel()}, at::kFloat);
    add(joined.sum.data_ptr<float>(), left, right);
    mine = std::move(joined);
  }
  std::memcpy(slot(piece_index, n, arenas), mine.sum.const_data_ptr<float>(), mine.sum.nbytes());
  piece.complete[n] = true;
  ++completed_;
}

void LeafTree::finish(const std::vector<at::Tensor>& arenas) {
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    Piece& piece = pieces_[i];
    std::map<Node, at::Tensor> parts;
    for (Partial& part : piece.waiting) parts.emplace(part.node, std::move(part.sum));
    piece.waiting.clear();
    for (std::size_t n = 0; n < piece.nodes.size(); ++n) {
      if (piece.complete[n]) continue;
      const Node node = piece.nodes[n];
      // Some leaf never came: joins what is there.
      const auto sum =
          tree_sum(parts, node.lo, node.hi, [](const at::Tensor& left, const at::Tensor& right) {
            at::Tensor out = at::empty({left.numel()}, at::kFloat);
            add(out.data_ptr<float>(), left, right);
            return out;
          });
      SP_CHECK(sum.has_value(), "no gradient arrived for " + table_.pieces()[i].name);
      std::memcpy(slot(static_cast<int>(i), n, arenas), sum->const_data_ptr<float>(),
                  sum->nbytes());
    }
    std::fill(piece.complete.begin(), piece.complete.end(), false);
  }
  completed_ = arrived_ = 0;
}

void LeafTree::clear() {
  completed_ = arrived_ = 0;
  for (Piece& piece : pieces_) {
    piece.waiting.clear();
    std::fill(piece.complete.begin(), piece.complete.end(), false);
  }
}

float* LeafTree::slot(int piece_index, std::size_t node,
                      const std::vector<at::Tensor>& arenas) const {
  return arenas.at(node).data_ptr<float>() + table_.range(piece_index).lo;
}

}  // namespace shardproof

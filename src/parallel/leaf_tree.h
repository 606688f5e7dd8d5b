// leaf_tree: the sum over sequence pieces of one micro-batch, as far as this rank can take it. The
// gradients of a piece arrive as leaves (piece, sequence piece); leaves that this rank owns meet in
// the maximal complete subtrees of tree(S) ("nodes"), each of which has an arena. A lone rank has
// one node, the root. Siblings are added as soon as both are there. An absent leaf is skipped,
// never added as zero; a node of which nothing arrived is a bug (SP_CHECK).
// Thread rule: one rank's thread.
#pragma once

#include <vector>

#include <ATen/core/Tensor.h>

#include "base/piece.h"
#include "base/tree.h"

namespace shardproof {

class LeafTree {
 public:
  // `nodes[piece]`: ascending subtrees of tree(S) whose leaves arrive here.
  LeafTree(const PieceTable& table, int sequence_pieces, std::vector<std::vector<Node>> nodes);

  // `gradient`: contiguous fp32 of the piece's size; it is read here or kept, never written to.
  // `arenas[k]`: flat fp32, takes the sums of every piece's k-th node.
  void leaf(int piece_index, int sequence_piece, const at::Tensor& gradient,
            const std::vector<at::Tensor>& arenas);
  void finish(const std::vector<at::Tensor>& arenas);  // the micro-batch has ended
  void clear();
  // Every node of every piece has its sum; no leaf has arrived since finish() or clear().
  bool complete() const { return completed_ == nodes_; }
  bool empty() const { return arrived_ == 0; }

  std::size_t arenas() const { return arenas_; }  // how many the largest piece needs

 private:
  struct Partial {
    Node node;
    at::Tensor sum;
  };
  struct Piece {
    std::vector<Node> nodes;
    std::vector<bool> complete;    // by node: its place in the arena holds its sum
    std::vector<Partial> waiting;  // subtrees below the nodes, not yet joined
  };

  float* slot(int piece_index, std::size_t node, const std::vector<at::Tensor>& arenas) const;

  const PieceTable& table_;
  int sequence_pieces_;
  std::vector<Piece> pieces_;
  std::size_t arenas_ = 0;
  std::size_t nodes_ = 0;  // of all pieces
  std::size_t completed_ = 0;
  std::size_t arrived_ = 0;  // leaves
};

}  // namespace shardproof

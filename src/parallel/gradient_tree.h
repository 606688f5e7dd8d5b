// gradient_tree: one rank's canonical accumulation over its micro-batches. Each micro-batch's
// gradients arrive as leaves (piece, sequence piece); the leaves of a piece meet in tree(S), the
// arenas of whole micro-batches in tree(M): after micro-batch m siblings are added as soon as both
// are there, so at most 1 + log2(own micro-batches) arenas live at once when they are ascending and
// contiguous. Never adds an absent leaf as zero. Arenas are kept for the next step.
// Every piece has a gradient in every micro-batch (SP_CHECK): a dense model.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/piece.h"
#include "base/tree.h"

namespace shardproof {

class GradientTree {
 public:
  GradientTree(const PieceTable& table, int micro_batches, int sequence_pieces);

  // `gradient`: contiguous fp32 of the piece's size; it is read here or kept, never written to.
  void leaf(int piece_index, int sequence_piece, const at::Tensor& gradient);
  void end_micro_batch(int micro_batch);
  // The maximal subtrees of the micro-batches seen since clear(); flat fp32 arenas.
  const std::map<Node, at::Tensor>& subtrees() const { return done_; }
  void clear();
  // An arena whose contents nobody needs, for the caller's use until the next leaf or clear().
  const at::Tensor& spare();
  std::int64_t live_bytes() const;  // of all arenas, those kept for reuse too

 private:
  struct Partial {
    Node node;
    at::Tensor sum;
  };

  at::Tensor take_arena();
  float* slot(int piece_index);
  void finish_piece(int piece_index);

  const PieceTable& table_;
  int micro_batches_;
  int sequence_pieces_;
  at::Tensor current_;                          // the arena being filled
  std::vector<std::vector<Partial>> partials_;  // by piece: subtrees of tree(S) not yet joined
  std::vector<bool> complete_;                  // by piece: its slot of `current_` holds its sum
  std::map<Node, at::Tensor> done_;
  std::vector<at::Tensor> free_;
};

}  // namespace shardproof

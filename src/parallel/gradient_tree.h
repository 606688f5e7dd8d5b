// gradient_tree: one rank's canonical accumulation over its micro-batches, for a rank that owns
// every sequence piece: the leaves of a piece meet in tree(S) (leaf_tree.h), the arenas of whole
// micro-batches in tree(M) (batch_tree.h).
// Every piece has a gradient in every micro-batch (SP_CHECK): a dense model.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <ATen/core/Tensor.h>

#include "base/piece.h"
#include "base/tree.h"
#include "parallel/batch_tree.h"
#include "parallel/leaf_tree.h"

namespace shardproof {

class GradientTree {
 public:
  GradientTree(const PieceTable& table, int micro_batches, int sequence_pieces);

  // `gradient`: contiguous fp32 of the piece's size; it is read here or kept, never written to.
  void leaf(int piece_index, int sequence_piece, const at::Tensor& gradient);
  void end_micro_batch(int micro_batch);
  // The maximal subtrees of the micro-batches seen since clear(); flat fp32 arenas.
  const std::map<Node, at::Tensor>& subtrees() const { return batches_.subtrees(); }
  void clear();
  // An arena whose contents nobody needs, for the caller's use until the next leaf or clear().
  const at::Tensor& spare() { return batches_.spare(); }
  std::int64_t live_bytes() const { return batches_.live_bytes(); }

 private:
  int micro_batches_;
  LeafTree leaves_;
  BatchTree batches_;
  std::vector<at::Tensor> current_;  // the arena being filled, or none
};

}  // namespace shardproof

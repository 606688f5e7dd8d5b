// gradient_tree: leaves into arenas, arenas into the tree.
#include "parallel/gradient_tree.h"

#include "base/check.h"

namespace shardproof {

GradientTree::GradientTree(const PieceTable& table, int micro_batches, int sequence_pieces)
    : micro_batches_(micro_batches),
      leaves_(table, sequence_pieces,
              std::vector<std::vector<Node>>(table.pieces().size(), {Node{0, sequence_pieces}})),
      batches_(table.elements(), micro_batches) {}

void GradientTree::leaf(int piece_index, int sequence_piece, const at::Tensor& gradient) {
  if (current_.empty()) current_.push_back(batches_.take());
  leaves_.leaf(piece_index, sequence_piece, gradient, current_);
}

void GradientTree::end_micro_batch(int micro_batch) {
  SP_CHECK_LT(micro_batch, micro_batches_);
  if (current_.empty()) current_.push_back(batches_.take());
  leaves_.finish(current_);
  batches_.add(micro_batch, std::move(current_.back()));
  current_.clear();
}

void GradientTree::clear() {
  batches_.clear();
  for (at::Tensor& arena : current_) batches_.give_back(std::move(arena));
  current_.clear();
  leaves_.clear();
}

}  // namespace shardproof

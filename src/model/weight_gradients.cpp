// weight_gradients: the second half of a split backward.
#include "model/weight_gradients.h"

namespace shardproof {

void WeightGradients::hand_over() {
  for (Kept& kept : kept_) {
    seams_->gradient(kept.piece_index, kept.sequence_piece, kept.leaf(), kept.site);
    kept.leaf = nullptr;  // its operands are freed leaf by leaf
  }
  kept_.clear();
}

}  // namespace shardproof

// weight_gradients: the gradients of the parameter uses of one micro-batch on their way to the
// seams: at once, or, when a schedule splits the backward (zero bubble), kept as what remains to be
// computed until hand_over(). Either way the same operations on the same operands in the same
// order, so the bits are equal.
// The price of later: every kept leaf holds its operands (the layers' inputs and the gradients of
// their outputs), and nobody may write to them meanwhile.
// Thread rule: the rank's thread.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "model/seams.h"

namespace shardproof {

class WeightGradients {
 public:
  explicit WeightGradients(Seams& seams) : seams_(&seams) {}

  // From here on leaves are kept.
  void defer() { deferred_ = true; }
  bool deferred() const { return deferred_; }

  // `leaf()` computes the gradient; it is called exactly once.
  template <typename Leaf>
  void add(int piece_index, int sequence_piece, const Site& site, Leaf leaf) {
    if (deferred_) {
      kept_.push_back({piece_index, sequence_piece, site, std::move(leaf)});
    } else {
      seams_->gradient(piece_index, sequence_piece, leaf(), site);
    }
  }
  // A gradient that came out of the backward of the input: only its way to the seams is deferred.
  void add_ready(int piece_index, int sequence_piece, const Site& site, at::Tensor leaf) {
    add(piece_index, sequence_piece, site,
        [leaf = std::move(leaf)]() mutable { return std::move(leaf); });
  }

  // Computes and hands over what was kept, in the order in which it came.
  void hand_over();

 private:
  struct Kept {
    int piece_index;
    int sequence_piece;
    Site site;
    std::function<at::Tensor()> leaf;
  };

  Seams* seams_;
  bool deferred_ = false;
  std::vector<Kept> kept_;
};

}  // namespace shardproof

// gpt: a GPT as plain maths on named parameters in pieces: pre-norm blocks, causal attention in
// S x S blocks merged by log-sum-exp in tree order, exact GELU, biases, separate LM head.
// forward() keeps what backward() needs; backward() hands every parameter use's gradient to the
// seam. The parameters' dtype is float32, or float64 for finite differences.
// Guarantee: the bits of every value depend on the pieces, never on who owns them.
// Thread rule: one Gpt per rank. Sets nothing global.
#pragma once

#include <memory>
#include <vector>

#include "base/batch.h"
#include "model/gpt_shape.h"
#include "model/seams.h"

namespace shardproof {

// Sum of the loss over the valid targets of one (micro-batch, sequence piece): a leaf of the
// canonical loss tree. The mean is taken after the global sums.
struct LossLeaf {
  int micro_batch = 0;
  int sequence_piece = 0;
  double sum = 0;
  std::int64_t count = 0;
};

class Gpt {
 public:
  Gpt(const GptShape& shape, const PieceTable& table, Seams& seams);
  ~Gpt();

  // One leaf per owned sequence piece. Several micro-batches may be in flight; each is kept under
  // its index until its backward.
  std::vector<LossLeaf> forward(const MicroBatch& batch);
  // Gradients of seed x (sum of the losses of this micro-batch). seed = 1 / global token count,
  // rounded once to the parameters' dtype.
  void backward(int micro_batch, double seed);

  // The same in two halves: the gradient of the stage's input now, those of the parameters later,
  // the same bits. In between a micro-batch holds what the second half needs.
  void backward_input(int micro_batch, double seed);
  void backward_weight(int micro_batch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardproof

// ends: the two ends of the model. Embedding: token and position look-up with dropout. Head: final
// norm, the vocabulary-parallel projection and the loss.
// Thread rule: one of each per rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "base/piece.h"
#include "model/loss.h"
#include "model/piece_batch.h"
#include "model/seams.h"

namespace shardproof {

class Embedding {
 public:
  Embedding(const GptShape& shape, const PieceTable& table, Seams& seams);

  // By residual piece. `masks` (dropout) are kept for the backward.
  std::vector<at::Tensor> forward(const PieceBatch& batch, std::vector<at::Tensor>& masks) const;
  void backward(std::vector<at::Tensor> gradient, const PieceBatch& batch,
                const std::vector<at::Tensor>& masks) const;

 private:
  Seams& seams_;
  std::vector<int> token_;
  std::vector<std::int64_t> first_;  // first vocabulary entry of each tensor piece
  std::vector<std::int64_t> count_;
  int position_;
  std::int64_t sequence_;
};

// What the head's backward needs of one micro-batch.
struct HeadSaved {
  std::vector<at::Tensor> x;  // by residual piece, as are the next two
  std::vector<at::Tensor> mean;
  std::vector<at::Tensor> rstd;
  std::vector<at::Tensor> input;  // by sequence piece
  LossSaved loss;
};

class Head {
 public:
  Head(const GptShape& shape, const PieceTable& table, Seams& seams);

  std::vector<LossSum> forward(std::vector<at::Tensor> x, const PieceBatch& batch,
                               HeadSaved& saved) const;
  std::vector<at::Tensor> backward(double seed, const PieceBatch& batch, HeadSaved& saved) const;

 private:
  Seams& seams_;
  int norm_weight_;
  int norm_bias_;
  std::vector<int> weight_;
  std::vector<std::int64_t> first_;  // first vocabulary entry of each tensor piece
};

}  // namespace shardproof

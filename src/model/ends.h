// ends: the two ends of the model. Embedding: token and position look-up with dropout. Head: final
// norm, the vocabulary-parallel projection and the loss. In a tied model the head projects with the
// pieces of embed.weight: a second use (Site::use 1) with gradient leaves of its own.
// Thread rule: one of each per rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "base/piece.h"
#include "model/loss.h"
#include "model/piece_batch.h"
#include "model/seams.h"
#include "model/weight_gradients.h"

namespace shardproof {

class Embedding {
 public:
  Embedding(const GptShape& shape, const PieceTable& table, Seams& seams);

  // By residual piece. `masks` (dropout) are kept for the backward.
  std::vector<at::Tensor> forward(const PieceBatch& batch, std::vector<at::Tensor>& masks) const;
  // `batch` must live until `weights` have been handed over.
  void backward(std::vector<at::Tensor> gradient, const PieceBatch& batch,
                const std::vector<at::Tensor>& masks, WeightGradients& weights) const;

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
  std::vector<at::Tensor> backward(double seed, const PieceBatch& batch, HeadSaved& saved,
                                   WeightGradients& weights) const;

 private:
  Seams& seams_;
  int norm_weight_;
  int norm_bias_;
  // Of the projection's weight; `use` 1 where the embedding is the first.
  Site weight_site(const char* what, const PieceBatch& batch, Pass pass, int sequence) const;

  std::vector<int> weight_;
  const int weight_use_;
  std::vector<std::int64_t> first_;  // first vocabulary entry of each tensor piece
  const Smoothing smoothing_;
};

}  // namespace shardproof

// branch: one residual branch of a block, y = x + dropout(out(f(in(norm(x)))) + bias), where `in`
// is column-parallel (its input fans out to all tensor pieces) and `out` row-parallel (its pieces
// meet on tree(V)). What both kinds share is here; AttentionBranch and MlpBranch bring the
// products. Between `in` and `out` nothing is gathered: each tensor piece's slice of the hidden
// values (whole heads, or columns of the MLP) stays where it was computed, so a branch exchanges
// values over the tensor axis twice in each direction, at its two ends. Thread rule: one branch per
// rank; several micro-batches may be in flight, each with its own BranchSaved.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "base/piece.h"
#include "model/attention.h"
#include "model/piece_batch.h"
#include "model/seams.h"
#include "model/weight_gradients.h"

namespace shardproof {

// What the backward needs of one micro-batch.
struct BranchSaved {
  std::vector<at::Tensor> x;  // by residual piece, as are the next three
  std::vector<at::Tensor> mean;
  std::vector<at::Tensor> rstd;
  std::vector<at::Tensor> mask;           // undefined without dropout
  std::vector<at::Tensor> input;          // the normalised input, by sequence piece
  std::vector<AttentionSaved> attention;  // by tensor piece of attention_pieces() (attention)
  Parts mixed;                            // by [s][v], the heads' outputs (attention)
  Parts up;                               // by [s][v], before GELU (MLP)
  Parts activated;                        // by [s][v], after GELU (MLP)
};

// The pieces of one cut parameter, as table indices by tensor piece 0..V-1.
std::vector<int> piece_indices(const PieceTable& table, const std::string& name, int pieces);

class Branch {
 public:
  // Names of seams' sites; literals.
  struct Sites {
    const char* norm;
    const char* in;
    const char* out;
    const char* dropout;
  };

  virtual ~Branch() = default;

  std::vector<at::Tensor> forward(std::vector<at::Tensor> x, const PieceBatch& batch, Pass pass,
                                  BranchSaved& saved) const;
  // gradient: of the output, by residual piece; returns the gradient of x. Consumes `saved`.
  std::vector<at::Tensor> backward(std::vector<at::Tensor> gradient, const PieceBatch& batch,
                                   BranchSaved& saved, WeightGradients& weights) const;

 protected:
  Branch(const PieceTable& table, Seams& seams, int layer, const std::string& norm,
         const std::string& out_bias, Sites sites);

  // From the normalised input (saved.input) to the terms of the row-parallel output, by [s][v].
  virtual Parts products(const PieceBatch& batch, Pass pass, BranchSaved& saved) const = 0;
  // From the gradient of the output, by sequence piece, to the terms of the input's gradient.
  virtual Parts products_backward(const std::vector<at::Tensor>& gradient, const PieceBatch& batch,
                                  BranchSaved& saved, WeightGradients& weights) const = 0;

  at::Tensor parameter(int piece_index, int sequence, const PieceBatch& batch, Pass pass) const;
  Site gradient_site(int sequence, const PieceBatch& batch) const {
    return site("gradient", batch, Pass::backward, sequence);
  }
  Site site(const char* what, const PieceBatch& batch, Pass pass, int sequence = -1) const;

  Seams& seams_;
  const int layer_;
  const Sites sites_;

 private:
  int norm_weight_;
  int norm_bias_;
  int out_bias_;
};

class AttentionBranch : public Branch {
 public:
  AttentionBranch(const GptShape& shape, const PieceTable& table, Seams& seams, int layer);

 private:
  Parts products(const PieceBatch& batch, Pass pass, BranchSaved& saved) const override;
  Parts products_backward(const std::vector<at::Tensor>& gradient, const PieceBatch& batch,
                          BranchSaved& saved, WeightGradients& weights) const override;

  // q, k and v are three parameters, each in V pieces of whole heads.
  struct Projection {
    std::vector<int> weight;
    std::vector<int> bias;
  };
  // From query, key and value by owned [s][v] to saved.mixed, and from the gradient of saved.mixed
  // to theirs: attention runs on attention_pieces(), between the two trades.
  void attend(std::vector<Parts> operands, const PieceBatch& batch, Pass pass,
              BranchSaved& saved) const;
  std::vector<Parts> attend_backward(Parts mixed, const PieceBatch& batch,
                                     const BranchSaved& saved) const;
  at::Tensor project(const Projection& projection, std::size_t v, std::size_t s,
                     const PieceBatch& batch, Pass pass, const BranchSaved& saved) const;
  void project_backward(const Projection& projection, std::size_t v, std::size_t s,
                        const at::Tensor& gradient, const PieceBatch& batch,
                        const BranchSaved& saved, WeightGradients& weights, at::Tensor& sum) const;

  int head_width_;
  Projection query_;
  Projection key_;
  Projection value_;
  std::vector<int> out_weight_;
};

class MlpBranch : public Branch {
 public:
  MlpBranch(const GptShape& shape, const PieceTable& table, Seams& seams, int layer);

 private:
  Parts products(const PieceBatch& batch, Pass pass, BranchSaved& saved) const override;
  Parts products_backward(const std::vector<at::Tensor>& gradient, const PieceBatch& batch,
                          BranchSaved& saved, WeightGradients& weights) const override;

  std::vector<int> up_weight_;
  std::vector<int> up_bias_;
  std::vector<int> down_weight_;
};

}  // namespace shardproof

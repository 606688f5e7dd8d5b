// attention: causal attention of one tensor piece (whole heads), in blocks (query piece i, key
// piece j <= i) merged by log-sum-exp in the order of tree(S). The backward of a block is a
// function of its own pieces and of the merged output and log-sum-exp, so blocks can run on any
// owner. Tensors are contiguous [rows, piece length, heads, head width]. No dropout on the
// probabilities (the CPU kernel has none). Thread rule: pure.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "model/seams.h"

namespace shardproof {

// Additive masks by owned query piece and key piece j; empty: causal only.
using BlockMasks = std::vector<std::vector<at::Tensor>>;

// What the backward needs; lists by owned query piece, keys of all S pieces.
struct AttentionSaved {
  std::vector<at::Tensor> query;
  std::vector<KeyValue> keys;
  std::vector<at::Tensor> out;
  std::vector<at::Tensor> log_sum;  // [rows, heads, piece length]
};

// Fills out and log_sum from query and keys. `owned`: the query pieces, ascending.
void attention(const std::vector<int>& owned, const BlockMasks& masks, AttentionSaved& saved);

struct AttentionGradients {
  std::vector<at::Tensor> query;               // by owned query piece
  std::vector<std::vector<KeyValue>> partial;  // [owned i][j], undefined for j > i
};
AttentionGradients attention_backward(const std::vector<at::Tensor>& gradient,
                                      const std::vector<int>& owned, const BlockMasks& masks,
                                      const AttentionSaved& saved);

// Masks of packed documents (and causality) for the owned query pieces: 0 where a query may look,
// a large finite negative number elsewhere, so that a wholly masked block merges with weight 0.
BlockMasks document_masks(const MicroBatch& batch, const std::vector<int>& owned, int pieces,
                          at::ScalarType dtype);

}  // namespace shardproof

// loss: cross entropy over a vocabulary cut into tensor pieces. The row maximum is exact in any
// order; the sum of exponentials, the target's logit and, under label smoothing, the sum of the
// logits meet on tree(V) through the seams.
// With smoothing e the loss of a row is (1 - e) x nll + e / vocabulary x (sum over all entries c of
// -log p_c), as in PyTorch's cross_entropy (Szegedy et al., "Rethinking the Inception
// architecture", 2016, section 7). A target MicroBatch::ignored adds nothing to the sum, the count
// or the gradient. Thread rule: pure but for the seams.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "model/rows.h"
#include "model/seams.h"

namespace shardproof {

struct Smoothing {
  double epsilon = 0;           // 0: none, and nothing of it is computed or sent
  std::int64_t vocabulary = 1;  // entries of all pieces together
  double share() const { return epsilon / static_cast<double>(vocabulary); }
};

struct LossSum {
  double sum = 0;  // of the valid rows, in row order
  std::int64_t count = 0;
};

// What the backward needs: exp(logit - row maximum) by [s][v], and their row sums over all V.
struct LossSaved {
  Parts exponentials;
  std::vector<at::Tensor> totals;
};

// logits[s][v] [rows, share] are given up; first[v]: the first vocabulary entry of owned piece v;
// targets[s]. Returns one sum by owned sequence piece.
std::vector<LossSum> cross_entropy(Parts logits, const std::vector<std::int64_t>& first,
                                   const std::vector<Ids>& targets, Smoothing smoothing,
                                   Seams& seams, Site site, LossSaved& saved);

// The gradient of seed x sum with respect to logits[s][v]; overwrites and returns the saved
// exponentials of that part.
at::Tensor cross_entropy_backward(at::Tensor exponentials, const at::Tensor& totals,
                                  std::int64_t first, Ids targets, Smoothing smoothing,
                                  double seed);

}  // namespace shardproof

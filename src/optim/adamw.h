// adamw: AdamW with decoupled weight decay (Loshchilov and Hutter, 2019, algorithm 2), as one
// explicit loop compiled without contraction, elementwise on any range of the arena, so that the
// bits do not depend on how the arena is shared:
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  t = step + 1
//   w = w - lr ((m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + eps) + decay w),  g = clip_factor x grad
// All arithmetic in fp32; scalars are computed in double and rounded once. Torch-free.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/piece.h"

namespace shardproof {

struct AdamWConfig {
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
};

struct AdamWStep {
  double lr = 0;
  double clip_factor = 1;  // applied to the gradient
  std::int64_t step = 0;   // from 0
};

// master, moments: `count` elements updated in place. `decay`: weight decay for this range.
void adamw(const AdamWConfig& config, const AdamWStep& at, bool decay, std::int64_t count,
           const float* grad, float* master, float* exp_avg, float* exp_avg_sq);

// Decay is set by name: a parameter decays unless a pattern ('*' matches any text) matches.
bool decays(std::string_view name, const std::vector<std::string>& no_decay);

}  // namespace shardproof

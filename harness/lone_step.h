// lone_step: the gradients of one step on one rank, in float32 or float64, from given weights: the
// model with no plan, mesh or communicator, so no mistake of those is in them. Pieces are the
// config's: under native reduction on dp1 every tensor is whole.
// All that is the Case's is as in a run: samples, valid tokens, dropout masks, label smoothing,
// tied weights, packed documents.
// Thread rule: any thread; sets its number of LibTorch threads to 1. Not checked: memory (one
// micro-batch's activations, in float64 twice a rank's).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/piece.h"
#include "train/config.h"

namespace shardproof {

// Whole parameters by name, row-major.
using Weights = std::map<std::string, std::vector<float>>;

struct LoneStep {
  std::int64_t step = 0;
  double loss = 0;  // per valid token
  std::int64_t tokens = 0;
  std::vector<std::int64_t> samples;
  std::map<std::string, std::vector<double>> gradients;  // whole, reduced, before clipping

  double grad_norm() const;
};

// The Case with nothing cut, and its parameters, each in one piece.
Config whole_config(const Config& config);
PieceTable whole_table(const Config& config);
Weights initial_weights(const Config& config);

// Tests leave micro-batches out of the gradient, not out of the count of tokens.
LoneStep lone_step(const Config& config, std::int64_t step, const Weights& weights, bool float64,
                   const std::set<int>& leave_out = {});

}  // namespace shardproof

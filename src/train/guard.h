// guard: looks at the numbers of a step before anything is updated with them. Values are the same
// bits on every rank, and so is what is thrown: Error numeric.
//  - A loss or gradient norm that is not finite is traced to its first piece: a parameter that
//    holds one (name, piece, element, rank), else the loss of a micro-batch, else a gradient.
//  - A loss or norm outside the declared range (section guard of the config).
//  - Spikes of the loss: see spike.h; the trainer rolls back.
// Nothing is gathered while all is well. Thread rule: the rank's thread; one guard per rank.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "model/gpt.h"
#include "parallel/plan.h"
#include "train/config.h"
#include "train/spike.h"

namespace shardproof {

// Collective: the texts of all ranks, in rank order.
using GatherText = std::function<std::vector<std::string>(const std::string& mine)>;

// The first NaN or infinity of what this rank holds, one sentence; empty: none. Losses by
// micro-batch, then sequence piece.
std::string first_not_finite(Plan& plan, const std::string& what, const std::string& called);
std::string first_not_finite(std::span<const LossLeaf> losses);

class Guard {
 public:
  // `gather`: null where this rank is alone.
  Guard(const GuardSection& section, GatherText gather)
      : section_(section),
        gather_(std::move(gather)),
        spikes_(section.spike_factor, section.spike_window) {}

  // Collective when something is wrong. After reduce: the gradient is there.
  void check(std::int64_t step, double loss, double grad_norm, Plan& plan,
             std::span<const LossLeaf> losses);
  SpikeWatch& spikes() { return spikes_; }

 private:
  [[noreturn]] void not_finite(std::int64_t step, double loss, double grad_norm, Plan& plan,
                               std::span<const LossLeaf> losses);
  void check_ranges(std::int64_t step, double loss, double grad_norm) const;

  const GuardSection section_;
  const GatherText gather_;
  SpikeWatch spikes_;
};

}  // namespace shardproof

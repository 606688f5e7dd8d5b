// optimizer_shard: the optimizer state that one rank owns of a unit: fp32 masters and the two
// moments of AdamW over a contiguous run of whole blocks of the unit's arena.
// Thread rule: one rank's thread. Not checked here: that the gradient is reduced and finite.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/piece.h"
#include "optim/adamw.h"

namespace shardproof {

class OptimizerShard {
 public:
  // `masters`: the values of `owned`, copied. `table` must outlive this.
  OptimizerShard(const PieceTable& table, ElementRange owned, const float* masters);

  ElementRange owned() const { return owned_; }
  // One step on every owned element. `gradient`: of `owned`, in its order, before clipping.
  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay, const float* gradient);

  // "master" | "exp_avg" | "exp_avg_sq": the values of `owned` (maybe null when empty).
  float* data(const std::string& what);
  const float* masters() const { return master_.const_data_ptr<float>(); }
  std::int64_t bytes() const;

 private:
  const PieceTable& table_;
  const ElementRange owned_;
  at::Tensor master_, exp_avg_, exp_avg_sq_;
};

}  // namespace shardproof

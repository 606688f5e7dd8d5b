// schedule: the learning rate as a pure function of the optimizer step (never of micro-batches):
// linear warm-up from lr/warmup at step 0, then a cosine from lr to lr x final_ratio at step
// total - 1, then constant. Torch-free.
#pragma once

#include <cstdint>

namespace shardproof {

struct ScheduleConfig {
  double lr = 1e-3;
  std::int64_t warmup = 0;      // steps
  std::int64_t total = 0;       // steps; 0: constant after warm-up
  double final_ratio = 0.1;
};

double learning_rate(const ScheduleConfig& config, std::int64_t step);

}  // namespace shardproof

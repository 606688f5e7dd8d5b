// The learning rate of a step.
#include "optim/schedule.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace shardproof {

double learning_rate(const ScheduleConfig& config, std::int64_t step) {
  SP_CHECK_LE(0, step);
  if (step < config.warmup) {
    return config.lr * static_cast<double>(step + 1) / static_cast<double>(config.warmup);
  }
  if (config.total == 0) return config.lr;
  const double floor = config.lr * config.final_ratio;
  const std::int64_t last = config.total - 1;
  if (step >= last) return floor;
  const double done =
      static_cast<double>(step - config.warmup) / static_cast<double>(last - config.warmup);
  return floor + (config.lr - floor) * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

}  // namespace shardproof

// The training stack from outside: a learning-rate schedule and the config of a default run.
#include <cstdio>

#include "optim/schedule.h"
#include "train/config.h"

int main() {
  const shardproof::Config config;
  shardproof::check(config);
  shardproof::ScheduleConfig schedule{.lr = config.optimizer.lr, .warmup = 2};
  std::printf("%s: lr %.4f\n", config.run.layout.c_str(), shardproof::learning_rate(schedule, 0));
  return shardproof::learning_rate(schedule, 0) == config.optimizer.lr / 2 ? 0 : 1;
}

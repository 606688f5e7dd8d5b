// case_testing: for tests: the small Case that most of them train. A test that needs another one
// says what differs.
#pragma once

#include <string>

#include "train/config.h"

namespace shardproof {

// One block of width 16, V = S = 2, 12 micro-batches of 2 rows: legal on 1, 2, 3, 4 and 6 ranks.
inline Config small_case(const std::string& layout, int steps) {
  Config config;
  config.model.layers = 1;
  config.model.width = 16;
  config.model.heads = 2;
  config.model.vocabulary = 32;
  config.model.sequence = 8;
  config.data.samples = 512;
  config.training.steps = steps;
  config.training.global_batch = 24;
  config.training.micro_batch = 2;
  config.run.layout = layout;
  return config;
}

}  // namespace shardproof

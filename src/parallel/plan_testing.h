// plan_testing: for tests of plans: one whole step with the model, without a trainer.
#pragma once

#include <cstdint>
#include <vector>

#include "base/memory_use.h"
#include "model/gpt_testing.h"
#include "parallel/plan.h"

namespace shardproof {

struct StepPlay {
  int rows = 2;                   // of a micro-batch
  std::uint64_t one_in = 4;       // targets ignored; 0: none
  std::int64_t memory_bytes = 0;  // that this rank claims
  int without_backward = -1;      // the micro-batch whose backward is left out
};

// Micro-batches are run one after the other, on chunk 0.
inline StepTotals play_step(Plan& plan, const GptShape& shape, const StepPlay& play = {}) {
  plan.begin_step(0);
  plan.sum_tokens(1);
  Gpt model(shape, plan.table(), plan.seams(0));
  std::vector<LossLeaf> losses;
  for (const int m : plan.micro_batches()) {
    const MemoryScope scope(MemoryUse::activations);
    const auto leaves = model.forward(testing::random_batch(shape, m, play.rows, 5, play.one_in));
    losses.insert(losses.end(), leaves.begin(), leaves.end());
    if (m == play.without_backward) continue;
    model.backward(m, 0.125);
    plan.end_micro_batch(m, 0);
  }
  const StepTotals totals = plan.reduce({losses, play.memory_bytes, false});
  plan.update({}, {1e-2, 0.5, 0}, {"*.bias"});
  plan.gather_parameters();
  return totals;
}

}  // namespace shardproof

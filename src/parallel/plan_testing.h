// plan_testing: for tests of plans: one whole step with the model, without a trainer.
#pragma once

#include <cstdint>
#include <memory>
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

// In the order of the plan's schedule.
inline std::vector<LossLeaf> play_passes(Plan& plan, const GptShape& shape, const StepPlay& play) {
  const MemoryScope scope(MemoryUse::activations);
  std::vector<std::unique_ptr<Gpt>> chunks;
  for (int chunk = 0; chunk < plan.chunks(); ++chunk) {
    chunks.push_back(std::make_unique<Gpt>(shape, plan.table(), plan.seams(chunk)));
  }
  std::vector<LossLeaf> losses;
  for (const auto& [kind, m, chunk] : plan.schedule()) {
    Gpt& model = *chunks[static_cast<std::size_t>(chunk)];
    if (kind == ActionKind::forward) {
      const auto leaves = model.forward(testing::random_batch(shape, m, play.rows, 5, play.one_in));
      losses.insert(losses.end(), leaves.begin(), leaves.end());
    } else if (m != play.without_backward) {
      if (kind == ActionKind::backward) model.backward(m, 0.125);
      if (kind == ActionKind::backward_input) model.backward_input(m, 0.125);
      if (kind == ActionKind::backward_weight) model.backward_weight(m);
      if (kind != ActionKind::backward_input) plan.end_micro_batch(m, chunk);
    }
  }
  return losses;
}

inline StepTotals play_step(Plan& plan, const GptShape& shape, const StepPlay& play = {}) {
  plan.begin_step(0);
  plan.sum_tokens(1);
  const auto losses = play_passes(plan, shape, play);
  const StepTotals totals = plan.reduce({losses, play.memory_bytes, false});
  plan.update({}, {1e-2, 0.5, 0}, {"*.bias"});
  plan.gather_parameters();
  return totals;
}

}  // namespace shardproof

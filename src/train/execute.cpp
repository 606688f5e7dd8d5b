// execute: the loop over actions.
#include "train/execute.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/memory_use.h"

namespace shardproof {
namespace {

const MicroBatch& batch_of(const std::vector<MicroBatch>& batches, int micro_batch) {
  const auto found = std::ranges::find(batches, micro_batch, &MicroBatch::index);
  SP_CHECK(found != batches.end(), "a schedule of micro-batches that this rank does not run");
  return *found;
}

}  // namespace

Executor::Executor(const GptShape& shape, Plan& plan) : plan_(plan) {
  for (int chunk = 0; chunk < plan.chunks(); ++chunk) {
    chunks_.push_back(std::make_unique<Gpt>(shape, plan.table(), plan.seams(chunk)));
  }
}

std::vector<LossLeaf> Executor::run(const std::vector<MicroBatch>& batches, double seed,
                                    Metrics& metrics,
                                    const std::function<void()>& before_backward) {
  const MemoryScope memory(MemoryUse::activations);
  std::vector<LossLeaf> losses;
  bool backwards = false;
  for (const Action& action : plan_.schedule()) {
    if (action.kind == ActionKind::forward) {
      const Metrics::Scope scope(metrics, Part::forward);
      const auto leaves = chunks_.at(static_cast<std::size_t>(action.chunk))
                              ->forward(batch_of(batches, action.micro_batch));
      losses.insert(losses.end(), leaves.begin(), leaves.end());
      continue;
    }
    if (!std::exchange(backwards, true)) before_backward();
    const Metrics::Scope scope(metrics, Part::backward);
    backward(action, seed);
  }
  return losses;
}

std::vector<LossLeaf> Executor::run_apart(const MicroBatch& batch, double seed) {
  const MemoryScope memory(MemoryUse::activations);
  std::vector<LossLeaf> losses;
  for (const auto& chunk : chunks_) {
    const auto leaves = chunk->forward(batch);
    losses.insert(losses.end(), leaves.begin(), leaves.end());
  }
  for (auto chunk = chunks_.rbegin(); chunk != chunks_.rend(); ++chunk) {
    (*chunk)->backward(batch.index, seed);
  }
  return losses;
}

void Executor::backward(const Action& action, double seed) {
  Gpt& model = *chunks_.at(static_cast<std::size_t>(action.chunk));
  if (action.kind == ActionKind::backward_input) {
    model.backward_input(action.micro_batch, seed);
    return;
  }
  if (action.kind == ActionKind::backward) model.backward(action.micro_batch, seed);
  if (action.kind == ActionKind::backward_weight) model.backward_weight(action.micro_batch);
  plan_.end_micro_batch(action.micro_batch, action.chunk);
}

}  // namespace shardproof

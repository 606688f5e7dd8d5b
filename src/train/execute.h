// execute: runs a plan's schedule of one step, action by action: one Gpt for each chunk of layers
// that this rank holds. It decides nothing; the order is the schedule's.
// Thread rule: the rank's thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/batch.h"
#include "model/gpt.h"
#include "parallel/plan.h"
#include "train/metrics.h"

namespace shardproof {

class Executor {
 public:
  Executor(const GptShape& shape, Plan& plan);

  // Forward and backward of all `batches`, which are the plan's micro-batches. `seed`: see
  // Gpt::backward. `before_backward` is called once, before the first backward. Returns the loss
  // leaves in the order of the forwards; none where another stage has the head.
  std::vector<LossLeaf> run(const std::vector<MicroBatch>& batches, double seed, Metrics& metrics,
                            const std::function<void()>& before_backward);

  // One micro-batch, which need not be this rank's, forward and backward through all chunks,
  // outside the schedule and untimed; its gradients go where the plan's tap takes them. All ranks
  // that the plan's seams reach take part, each with one.
  std::vector<LossLeaf> run_apart(const MicroBatch& batch, double seed);

 private:
  void backward(const Action& action, double seed);

  Plan& plan_;
  std::vector<std::unique_ptr<Gpt>> chunks_;
};

}  // namespace shardproof

// trainer: the training step, on one screen. Composes a Plan, a Loader, a Gpt, a Checkpointer and a
// TraceWriter; names no collective.
// Guarantee: everything that survives a restart is the plan's state, the loader's cursor and the
// step number. Thread rule: one trainer per rank.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "data/loader.h"
#include "model/gpt.h"
#include "train/checkpointer.h"
#include "train/config.h"
#include "train/hooks.h"
#include "train/metrics.h"
#include "trace/writer.h"

namespace shardproof {

struct TrainerParts {
  const Config& config;
  Plan& plan;
  Loader& loader;
  const Dataset& dataset;
  TraceWriter& trace;
  Metrics& metrics;
  Hooks& hooks;
  Checkpointer* checkpoints = nullptr;  // null: none
};

struct StepResult {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  std::int64_t tokens = 0;  // valid, of the whole world
};

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  StepResult step();                        // one optimizer step
  std::string save();                       // a checkpoint of the state before the next step
  void resume(const std::string& id);       // strict; Error refused | corrupt
  std::int64_t next_step() const { return step_; }

 private:
  CheckpointFacts facts() const;
  void trace_state(std::int64_t step, const char* what);

  TrainerParts parts_;
  Gpt model_;
  std::int64_t step_ = 0;
};

}  // namespace shardproof

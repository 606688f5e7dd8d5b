// saver: after which steps a run saves, how, and what it keeps: section `checkpoint` of the config
// over a Trainer and its Checkpointer. Collective throughout: all ranks save the same steps.
// A failed save in the background is thrown after the first step that ends behind it, or by
// finish(). Thread rule: the rank's thread.
#pragma once

#include <functional>

#include "checkpoint/save_interval.h"
#include "train/checkpointer.h"
#include "train/config.h"
#include "train/trainer.h"

namespace shardproof {

SaveInterval interval_of(const CheckpointSection& section);
Retention retention_of(const CheckpointSection& section);
SaveHow save_how(const CheckpointSection& section);

class Saver {
 public:
  // `say` is told, on every rank, of outdated checkpoints that were kept, and why.
  Saver(const CheckpointSection& section, Trainer& trainer, Checkpointer& checkpoints,
        std::function<void(const std::string&)> say);

  void after_step();
  void finish();  // the last save where asked for; waits for all

 private:
  bool due();
  void save();
  void prune();

  const CheckpointSection& section_;
  Trainer& trainer_;
  Checkpointer& checkpoints_;
  std::function<void(const std::string&)> say_;
  SaveTimer timer_;
  std::int64_t saved_step_ = -1;  // the last step after which a save was made or begun
  int saves_ = 0;
};

}  // namespace shardproof

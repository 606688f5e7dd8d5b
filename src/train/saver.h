// saver: after which steps a run saves, how, and what it keeps: section `checkpoint` of the config
// over a Trainer and its Checkpointer. Collective throughout: all ranks save the same steps.
// A failed save in the background is thrown after the first step that ends behind it, or by
// finish(). Thread rule: the rank's thread.
#pragma once

#include <functional>
#include <set>
#include <string>

#include "checkpoint/save_interval.h"
#include "train/checkpointer.h"
#include "train/config.h"
#include "train/trainer.h"

namespace shardproof {

SaveInterval interval_of(const CheckpointSection& section);
Retention retention_of(const CheckpointSection& section);
SaveHow save_how(const CheckpointSection& section);

// Told of each save, on all ranks, in order; its step is the checkpoint's.
class SaveWatch {
 public:
  virtual ~SaveWatch() = default;
  virtual void begun(std::int64_t step) = 0;
  virtual void saved(std::int64_t step) = 0;         // it is there, and nothing was pruned since
  virtual std::set<std::string> in_use() const = 0;  // checkpoints that must not be pruned
};

class Saver {
 public:
  // `say` is told, on every rank, of outdated checkpoints that were kept, and why. `watch`: null:
  // none. Error refused when the strategy cannot be had of this run.
  Saver(const CheckpointSection& section, Trainer& trainer, Checkpointer& checkpoints,
        std::function<void(const std::string&)> say, SaveWatch* watch = nullptr);

  void after_step();
  // Whether a save was begun after this step, which is then waited for: between after_step and the
  // next step.
  bool settle();
  void finish();  // the last save where asked for; waits for all

 private:
  bool due();
  void save();
  void await_background();
  void ended();

  const CheckpointSection& section_;
  Trainer& trainer_;
  Checkpointer& checkpoints_;
  std::function<void(const std::string&)> say_;
  SaveWatch* watch_;
  SaveTimer timer_;
  std::int64_t saved_step_ = -1;  // the last step after which a save was made or begun
  int saves_ = 0;
};

}  // namespace shardproof

// trainer: the training step, on one screen. Composes a Plan, a Loader, an Executor, a Checkpointer
// and a TraceWriter; names no collective. Guarantee: everything that survives a restart is the
// plan's state, the loader's cursor and the step number. Thread rule: one trainer per rank.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/loader.h"
#include "trace/writer.h"
#include "train/audit.h"
#include "train/checkpointer.h"
#include "train/config.h"
#include "train/execute.h"
#include "train/guard.h"
#include "train/hooks.h"
#include "train/memory_ledger.h"
#include "train/metrics.h"
#include "train/program.h"

namespace shardproof {

struct TrainerParts {
  const Config& config;
  Plan& plan;
  Loader& loader;
  const Dataset& dataset;
  const Program& program;
  TraceWriter& trace;
  Metrics& metrics;
  Hooks& hooks;
  Checkpointer* checkpoints = nullptr;      // null: none
  MemoryLedger* memory = nullptr;           // null: the plan's own count of its buffers
  double peak_flops = 0;                    // of the world; 0: not measured
  const std::atomic<bool>* stop = nullptr;  // set on any rank: all end after the same step
  GatherText gather = nullptr;              // of the world; null: this rank is alone
  Audit* audit = nullptr;                   // null: none
  // On every rank, what a guard has done; null: nobody listens.
  std::function<void(const std::string&)> say = nullptr;
  // After a rollback from a step, of which nothing is recorded, to a checkpoint.
  std::function<void(std::int64_t spiked, const std::string& id)> rolled_back = nullptr;
};

struct StepResult {
  std::int64_t step = 0;
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  std::int64_t tokens = 0;  // valid, of the whole world
  bool stop = false;        // some rank was asked to end after this step
};

class Trainer {
 public:
  explicit Trainer(TrainerParts parts);

  // One optimizer step; Error numeric when none is possible. A loss that leaps out (spike.h) goes
  // back to the newest checkpoint of an earlier step first: the step that is returned is then one
  // that was done before.
  StepResult step();
  std::string save();         // a checkpoint of the state before the next step; its id
  void save_in_background();  // the same, written while training goes on
  // Whether one has ended since, or has now been waited for; its Error, if it failed.
  bool saved_in_background(bool wait);
  // Strict; Error refused | corrupt. False: asked to stop while it computed the state again.
  bool resume(const std::string& id);
  // Begins a new Case with the whole state of another one's checkpoint; Errors as load_new_case.
  void begin_case(Checkpointer& from, const std::string& id);
  const Json& origin() const { return origin_; }  // of the state, unless it comes from seeds
  Digest state_digest();                          // of the state before the next step; collective
  void require_recomputable() const;              // Error refused unless seeds give what is saved
  void began_from(const Json& origin) { origin_ = origin; }  // for checkpoints: unless from seeds
  void trace_start();  // the state before the first step, into the trace
  std::int64_t next_step() const { return step_; }

 private:
  std::optional<StepResult> attempt();  // nothing: the step is to be done again
  bool spikes(double loss);             // it was rolled back
  void roll_back(double loss);
  void audit_pieces(const DataCursor& cursor, double seed, std::span<const LossLeaf> losses);
  bool audit_update(const StepResult& result, double clip_factor, const DataCursor& cursor);
  void say(const std::string& what) const {
    if (parts_.say) parts_.say(what);
  }
  void enter(std::int64_t step, Phase phase);
  std::int64_t memory_bytes() const;
  std::vector<std::int64_t> given_by_source() const;
  std::vector<SourceMetrics> taken_since(const std::vector<std::int64_t>& given) const;
  CheckpointFacts facts() const;
  bool recompute(const Loaded& to);
  CheckpointFacts expected() const;  // of a checkpoint that this run goes on from
  void go_on_from(const CheckpointFacts& found);
  void record(const StepResult& result, double clip_factor, const std::vector<MicroBatch>& batches,
              const StepTotals& totals);

  TrainerParts parts_;
  Executor executor_;
  Guard guard_;
  Json origin_ = Json::object();
  void begin_save();
  void end_save();
  std::string checkpoint_path() const;  // of the save that is being written

  std::int64_t step_ = 0;
  std::int64_t traced_gradients_ = -1;  // of which step
  std::int64_t saving_ = 0;             // the step of the save that is being written
  std::uint64_t bytes_sent_ = 0;        // before the step
  Duration pipeline_idle_{};            // until the end of the last step
  OffloadLedger offload_;               // the same
};

}  // namespace shardproof

// plan: what the trainer needs from any parallel layout. The plan owns parameters, gradients and
// optimizer state in whatever sharded form its layout has, the seams of the model, and all
// communication of a step; the trainer names no collective. Canonical reduction: every leaf
// (micro-batch) gradient has its place in tree(M), so every legal plan gives the same bits.
// Errors: Error of the communicator, unchanged. Thread rule: one plan per rank.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/piece.h"
#include "model/gpt.h"
#include "optim/adamw.h"
#include "parallel/offload_traffic.h"
#include "parallel/schedule.h"

namespace shardproof {

// What a rank holds of the training state: contiguous bytes of a run of whole blocks of a piece; of
// offloaded state a view in host memory, valid until the next step begins.
struct StateShard {
  std::string what;  // "param" | "exp_avg" | "exp_avg_sq" | "master" | "grad"
  int piece_index = 0;
  ElementRange range;    // within the piece, block-aligned
  void* data = nullptr;  // fp32
};

// Adds the runs by piece of what lies at `data`: the elements `held` of the arena of `local`, a
// part of the model's `table`. keep(i), by index into `local`: whether that piece is wanted.
void append_shards(std::vector<StateShard>& out, const std::string& what, const PieceTable& table,
                   const PieceTable& local, ElementRange held, float* data,
                   const std::function<bool(int)>& keep);

// Live bytes by use, counted from the buffers themselves: on the device, but for what is offloaded.
struct PlanBytes {
  std::int64_t parameters = 0;       // what stays between steps
  std::int64_t gathered = 0;         // buffers for whole units of sharded parameters
  std::int64_t gradients = 0;        // arena and tree partials
  std::int64_t optimizer = 0;        // masters and moments
  std::int64_t optimizer_exact = 0;  // 12 P / R, rounded down: the exact share
  std::int64_t optimizer_offloaded = 0;
  std::int64_t parameters_offloaded = 0;
  std::int64_t units = 1;          // owned in shares on their own: each rounds to whole blocks
  std::int64_t communication = 0;  // staging
};

// What a rank brings to the end of a step's accumulation, and what all ranks make of it.
struct StepShare {
  std::span<const LossLeaf> losses;  // of this rank's micro-batches
  std::int64_t memory_bytes = 0;     // of this rank, for the maximum and mean over ranks
  bool stop = false;                 // this rank was asked to end after this step
};
struct StepTotals {
  double loss_sum = 0;   // tree over (micro-batch, sequence piece): the same bits on every rank
  double grad_norm = 0;  // global 2-norm of the reduced gradient: the same bits on every rank
  std::int64_t memory_max = 0;
  std::int64_t memory_mean = 0;
  bool stop = false;  // any rank was asked: all of them end after the same step
};

// Sees a leaf of a gradient as the model hands it over, before any sum. True: the leaf is taken,
// and the plan adds it nowhere (a micro-batch that is computed again, to be compared).
using LeafTap =
    std::function<bool(int piece_index, int sequence_piece, const at::Tensor& leaf, const Site&)>;

class Plan {
 public:
  virtual ~Plan() = default;

  virtual const PieceTable& table() const = 0;
  virtual std::vector<int> micro_batches() const = 0;  // the global indices this rank runs

  // A rank holds one or more runs of layers, each a model of its own over its own seams, and runs
  // them in the order of the schedule.
  virtual int chunks() const { return 1; }
  virtual Seams& seams(int chunk) = 0;
  virtual Schedule schedule() const;  // each micro-batch forward and backward, unless overridden

  // Sums over all ranks BEFORE the step's first forward; exact.
  virtual std::int64_t sum_tokens(std::int64_t mine) = 0;

  virtual void begin_step(std::int64_t step) = 0;
  // Null: none. False: leaves of this plan cannot be seen.
  virtual bool tap(LeafTap) { return false; }
  // What a pass over a micro-batch has sent has arrived. Reductions of gradients may go on.
  virtual void end_passes() {}
  // All gradients of this micro-batch have come from this chunk.
  virtual void end_micro_batch(int micro_batch, int chunk) = 0;

  // After the last micro-batch: the canonical sum of gradients reaches its owners, and the step's
  // scalars reach everybody in one exchange. A rank without micro-batches takes part.
  virtual StepTotals reduce(const StepShare& mine) = 0;

  virtual void update(const AdamWConfig& config, const AdamWStep& at,
                      const std::vector<std::string>& no_decay) = 0;
  virtual void gather_parameters() = 0;  // after update: every rank computes on the new values

  // For the trace and for checkpoints. `replicated` asks for everything this rank holds (trace);
  // otherwise each block appears on exactly one rank of the world (checkpoint).
  virtual std::vector<StateShard> shards(const std::string& what, bool replicated) = 0;
  virtual void
  loaded() = 0;  // state was overwritten through shards(): refresh what derives from it

  virtual PlanBytes bytes() const = 0;
  virtual std::uint64_t bytes_sent() const = 0;  // that this rank made travel, since the start
  virtual std::uint64_t bytes_sent_in_passes() const { return 0; }  // of these
  // Waited for other pipeline stages inside forward and backward, since the start.
  virtual Duration pipeline_idle() const { return {}; }
  virtual OffloadLedger offload() const { return {}; }  // since the start
};

}  // namespace shardproof

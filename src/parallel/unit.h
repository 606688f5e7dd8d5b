// unit: one unit of a rank's state (units.h): its parameters, the sums that make its gradient, its
// share of the optimizer state. State is owned in contiguous runs of whole blocks by the R = cp x F
// ranks that hold the same pieces in one shard group; under ZeRO 0 every rank also updates all.
// Collective where said. Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/exact_sum.h"
#include "parallel/batch_sum.h"
#include "parallel/optimizer_shard.h"
#include "parallel/sequence_sum.h"
#include "parallel/unit_parameters.h"
#include "parallel/units.h"

namespace shardproof {

struct UnitOptions {
  int micro_batches = 0;    // M
  int sequence_pieces = 0;  // S
  bool native = false;
  BufferPool* pool = nullptr;  // for whole parameters under ZeRO 3
  OptimizerOffload optimizer;
  OffloadStore* parameters = nullptr;  // of shares under ZeRO 3; null: they stay on the device
  // The unit on this rank whose parameters this one uses: a tied embedding, for the head's use.
  class Unit* parameters_of = nullptr;
};

class Unit {
 public:
  Unit(PlanGroups& groups, UnitSpec spec, const UnitOptions& options);

  const UnitSpec& spec() const { return spec_; }
  const PieceTable& table() const { return spec_.table; }
  UnitParameters& parameters() { return *parameters_; }
  const UnitParameters& parameters() const { return *parameters_; }
  ElementRange share() const { return parameters_->share(); }
  // Has parameters of its own; owns them with their optimizer state (the head's use of a tied
  // embedding does not).
  bool keeps_parameters() const { return own_parameters_ != nullptr; }
  bool owns_state() const { return spec_.use == 0; }

  // Sets what this rank keeps of the parameters, and the masters it owns, to their initial values.
  void initialise(const GptShape& shape, std::uint64_t seed);

  // ---- the gradient of a step: leaves, end_micro_batch of each micro-batch, reduce_share,
  // finish_reduce ----
  void begin_step();
  void leaf(int piece_index, int sequence_piece, const at::Tensor& gradient);
  bool complete() const { return sequence_.complete(); }
  bool empty() const { return sequence_.empty(); }  // no leaf of the micro-batch under way
  void end_micro_batch(int micro_batch);  // collective over cp; over dp too under ZeRO 2 and 3
  float* reduce_share();  // collective over the data axis; this rank's share of the gradient
  void finish_reduce();   // collective under ZeRO 0: the whole gradient from everybody's shares
  // Of the reduced share, each element of the model counted on one rank of the world.
  void add_squares(ExactSum& squares) const;

  void update(const AdamWConfig& config, const AdamWStep& at,
              const std::vector<std::string>& no_decay);
  void gather_parameters();  // collective over the state group under ZeRO 1 and 2

  // ---- state by kind: "param" | "grad" | "master" | "exp_avg" | "exp_avg_sq"; what is offloaded
  // is shown by views, until begin_step() ----
  struct Held {
    ElementRange range;  // of the arena
    float* data = nullptr;
  };
  Held owned(const std::string& what);  // what this rank holds of it
  Held share_of(const std::string& what);
  // A whole parameter is saved and counted by tensor rank 0, everything by shard group 0.
  bool counts_here(int piece_index) const;
  void loaded();  // collective: what a loader filled on one rank reaches every copy

  std::int64_t gradient_bytes() const;
  std::int64_t staging_bytes() const { return batch_->staging_bytes(); }
  std::int64_t optimizer_bytes() const { return optimizer_ ? optimizer_->bytes() : 0; }
  std::int64_t offloaded_optimizer_bytes() const {
    return optimizer_ ? optimizer_->offloaded_bytes() : 0;
  }
  void add_traffic(OffloadLedger& sum) const;

 private:
  bool everything() const { return groups_.layout().zero == 0; }
  bool sharded_gradients() const { return groups_.layout().zero >= 2; }
  void gather(float* arena);
  void share_whole_parameters(float* share);

  PlanGroups& groups_;
  const UnitSpec spec_;
  const std::vector<std::size_t> shares_;  // by rank of the state group
  const OptimizerOffload offload_;
  std::unique_ptr<UnitParameters> own_parameters_;
  UnitParameters* const parameters_;
  SequenceSum sequence_;
  std::unique_ptr<BatchSum> batch_;
  std::optional<OptimizerShard> optimizer_;
  at::Tensor whole_gradient_;  // ZeRO 0
  const bool keeps_arenas_;    // between micro-batches
  float* reduced_ = nullptr;   // of what the optimizer owns; an empty share may be null
  bool is_reduced_ = false;
};

}  // namespace shardproof

// unit_cost: the calls that the gradients and the parameters of a rank's units (units.h) make in a
// step, by group, and the bytes they send: from shapes alone, apart from the code that sends
// (unit.*, sequence_sum.*, batch_sum.*, native_batch_sum.*, tied_weights.*). Gathers for passes of
// the model (ZeRO 3) are in gather_cost.h.
// Torch-free. Thread rule: one thread.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/cost.h"
#include "mesh/layout.h"
#include "parallel/plan_options.h"
#include "parallel/units.h"

namespace shardproof {

// By the group's label: an axis ("tp", "cp", "dp", "pp"), or "shard", "replica", "sequence",
// "state", "gather", "buckets", "all".
using GroupCalls = std::map<std::string, std::vector<PredictedCall>>;

class UnitCost {
 public:
  // Precondition: the layout is legal for the shape (legality.h). `options` outlive this.
  UnitCost(const Layout& layout, const PlanOptions& options, int world_rank, CommBackend backend);

  // The sum over sequence pieces, and over data ranks where that is due after every micro-batch.
  // `round`: the rank's how manieth micro-batch.
  void micro_batch(const PieceTable& table, std::size_t round);
  // The sums over data ranks and replicas that are left, and what the unit's owners hand out.
  void end_of_step(const UnitSpec& unit);
  // Of one weight with two uses, gradient and values between the stages that hold them; `units`:
  // all of the rank.
  void tied(const std::vector<UnitSpec>& units);
  // Every rank's share reaches those that hold the same pieces.
  void gather(const std::string& label, const PieceTable& table);

  GroupCalls calls;

 private:
  using Counts = std::vector<std::size_t>;
  void add(const std::string& label, const Call& call, int rank, int size);
  void add(const std::string& label, const std::vector<PredictedCall>& more);
  Counts state_shares(const PieceTable& table) const;
  Counts context_shares(const PieceTable& table) const;
  Counts data_shares(const PieceTable& table) const;
  std::size_t own_share(const PieceTable& table) const;
  std::size_t subtrees(int shard_rank) const;
  void sum_whole_parameters(const PieceTable& table);
  void sum_over_context(const PieceTable& table);
  void scatter(const Counts& shares);
  void exchange(const Counts& shares, const std::vector<bool>& brings);
  void sum_over_replicas(const Counts& shares);

  const Layout layout_;
  const PlanOptions& options_;
  const Coordinates at_;
  const CommBackend backend_;
  const int group_;                     // F, the data ranks that share a state
  const canonical::LeafOwners owners_;  // of micro-batches, by data rank
};

}  // namespace shardproof

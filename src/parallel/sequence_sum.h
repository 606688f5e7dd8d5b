// sequence_sum: the gradient of one unit over one micro-batch. Leaves (piece, sequence piece) meet
// in tree(S) as far as this rank owns them (leaf_tree.h); a canonical reduce-scatter over cp then
// leaves each context rank its share of the sum. Under sequence parallelism, gradients of whole
// parameters are summed over cp x tp instead.
// In native mode the sum over cp is the backend's own.
// The arenas are kept for the next micro-batch, or freed with release().
// Collective: finish(), over cp (and cp x tp under sp). Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/piece.h"
#include "comm/canonical.h"
#include "parallel/leaf_tree.h"
#include "parallel/plan_groups.h"

namespace shardproof {

class SequenceSum {
 public:
  // `shares`: elements of every context rank's share of the unit's arena.
  SequenceSum(PlanGroups& groups, const PieceTable& table, int sequence_pieces,
              std::vector<std::size_t> shares, bool native);

  void leaf(int piece_index, int sequence_piece, const at::Tensor& gradient);
  // All leaves of the micro-batch have arrived. False also when none has.
  bool complete() const { return leaves_.complete(); }
  bool empty() const { return leaves_.empty(); }
  // The sum over S of this rank's share, in a tensor of share() elements: `spare` of that size, or
  // (with one context rank) the arena itself, for which `spare` is kept.
  at::Tensor finish(at::Tensor spare);
  void clear();
  void release();  // frees the arenas

  ElementRange share() const { return share_; }  // of the arena, of this context rank
  std::int64_t live_bytes() const;

 private:
  void take_arenas();
  void add_to_first(std::size_t count);  // native: arenas 1..count-1 into arena 0
  void sum_over_context(float* out);
  at::Tensor sum_whole_parameters();
  void put_whole_parameters(const at::Tensor& sums, float* out) const;

  PlanGroups& groups_;
  const PieceTable& table_;
  const bool native_;
  const canonical::LeafOwners context_owners_;
  const canonical::LeafOwners residual_owners_;
  const std::vector<std::size_t> shares_;
  const ElementRange share_;
  std::vector<ElementRange> whole_places_;  // of parameters that are not cut, under sp
  LeafTree leaves_;
  const std::size_t arenas_needed_;
  std::vector<at::Tensor> arenas_;  // subtrees of tree(S) of the micro-batch under way
};

}  // namespace shardproof

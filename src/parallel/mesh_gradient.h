// mesh_gradient: the gradient of one rank of a dp x tp (+sp) x cp mesh, from leaves to the share
// that this rank's optimizer reads. See mesh_parallel.h for the order of the reductions.
// `table` holds the pieces of this rank's tensor coordinate.
// Collective: end_micro_batch over cp (and cp x tp under sp), reduce over dp.
// Thread rule: one rank's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/piece.h"
#include "comm/canonical.h"
#include "mesh/mesh.h"
#include "parallel/batch_tree.h"
#include "parallel/leaf_tree.h"

namespace shardproof {

class MeshGradient {
 public:
  MeshGradient(Mesh& mesh, const PieceTable& table, int micro_batches, int sequence_pieces);

  void clear();
  void leaf(int piece_index, int sequence_piece, const at::Tensor& gradient);
  void end_micro_batch(int micro_batch);
  // The reduced gradient of share(): elements in the order of the arena.
  float* reduce();

  ElementRange share() const { return share_; }  // of the state, of this rank
  // Elements of every rank's share, by cp_rank * dp + dp_rank.
  const std::vector<std::size_t>& state_shares() const { return state_shares_; }
  const std::vector<int>& micro_batches() const;
  std::int64_t live_bytes() const;
  std::uint64_t bytes_sent() const;

 private:
  void sum_over_sequence(float* out);
  at::Tensor sum_whole_parameters();
  void put_whole_parameters(const at::Tensor& sums, float* out) const;

  const PieceTable& table_;
  Communicator& data_;
  Communicator& context_;
  std::unique_ptr<Communicator> sequence_;  // cp x tp, under sp
  std::vector<ElementRange> whole_places_;  // of parameters that are not cut, under sp
  const canonical::LeafOwners batch_owners_;
  const canonical::LeafOwners context_owners_;
  const canonical::LeafOwners residual_owners_;
  const std::vector<std::size_t> state_shares_;
  std::vector<std::size_t> context_shares_, data_shares_;
  ElementRange context_share_;  // of the arena: what is left after the sum over S
  ElementRange share_;
  LeafTree leaves_;
  BatchTree batches_;
  std::vector<at::Tensor> arenas_;  // subtrees of tree(S) of the micro-batch under way
  at::Tensor no_leaves_;            // takes the sum on a rank without micro-batches
};

}  // namespace shardproof

// step_scalars: the scalars of a step that every rank needs, in one exchange: loss leaves by
// (micro-batch, sequence piece), the limbs of the squared gradient norm, memory, a wish to stop.
// Every rank gathers all of them and adds locally: the loss in tree order, the norm exactly.
// Guarantee: the same bits on every rank, whoever owns which micro-batch. Thread rule: one rank's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/exact_sum.h"
#include "base/tree.h"
#include "comm/communicator.h"
#include "mesh/layout.h"
#include "parallel/plan.h"

namespace shardproof {

// The loss leaves that a rank brings: every sequence piece of every micro-batch listed, both
// ascending. Ranks that compute the same leaf again (a tensor group) bring none of their own.
struct LossOwner {
  std::vector<int> micro_batches;
  std::vector<int> sequence_pieces;
};

// By world rank: tensor rank 0 of each (dp, cp) of the last pipeline stage.
std::vector<LossOwner> loss_owners(const Layout& layout, int micro_batches, int sequence_pieces);

class StepScalars {
 public:
  // `owners`: of every rank of the group; each leaf belongs to exactly one of them.
  StepScalars(int micro_batches, int sequence_pieces, std::vector<LossOwner> owners, int rank);

  // Collective. `mine.losses` holds one leaf per owned (micro-batch, sequence piece) (SP_CHECK).
  StepTotals exchange(Communicator& comm, const StepShare& mine, const ExactSum& squares);

  std::int64_t live_bytes() const;

 private:
  void pack(const StepShare& mine, const ExactSum& squares);
  double sum_losses() const;

  const int micro_batches_;
  const int sequence_pieces_;
  const std::vector<LossOwner> owners_;
  const std::size_t rank_;
  std::vector<std::size_t> counts_;  // of every rank
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;
};

}  // namespace shardproof

// step_scalars: the scalars of a step that every rank needs, in one exchange: loss leaves by
// (micro-batch, sequence piece), the limbs of the squared gradient norm, memory, a wish to stop.
// Every rank gathers all of them and adds locally: the loss in tree order, the norm exactly.
// Guarantee: the same bits on every rank, whoever owns which micro-batch. Thread rule: one rank's.
#pragma once

#include <cstdint>
#include <vector>

#include "base/exact_sum.h"
#include "comm/canonical.h"
#include "parallel/plan.h"

namespace shardproof {

class StepScalars {
 public:
  StepScalars(const canonical::LeafOwners& owners, int sequence_pieces, int rank);

  // Collective. `mine.losses` holds one leaf per owned (micro-batch, sequence piece) (SP_CHECK).
  StepTotals exchange(Communicator& comm, const StepShare& mine, const ExactSum& squares);

  std::int64_t live_bytes() const;

 private:
  void pack(const StepShare& mine, const ExactSum& squares);
  double sum_losses() const;

  const canonical::LeafOwners& owners_;
  const int sequence_pieces_;
  const std::vector<int>& micro_batches_;  // this rank's
  std::vector<std::size_t> counts_;        // of every rank
  std::vector<std::int64_t> mine_;
  std::vector<std::int64_t> all_;
};

}  // namespace shardproof

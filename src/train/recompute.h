// recompute: one data-parallel piece of a step, computed again by another data rank: the gradient
// leaves (and the loss) of one micro-batch, before any sum. Each data rank computes a micro-batch
// of a neighbour's again, all at once, since what they call is collective; which one changes from
// audit to audit, so that all are sampled over time. One data rank alone computes its own again.
// Catches what a rank computed or received wrongly within a micro-batch; not what all ranks do
// wrong alike, nor what befalls sums, norms and updates (audit.h has other eyes for these).
// Thread rule: the rank's thread. The plan's tap is in use from watch() to again()'s last call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>

#include "data/loader.h"
#include "mesh/mesh.h"
#include "train/config.h"
#include "train/execute.h"

namespace shardproof {

class Recompute {
 public:
  Recompute(const Config& config, Mesh& mesh, Plan& plan, std::shared_ptr<const Dataset> dataset);

  // Whether this plan's leaves can be seen, and a micro-batch be run apart.
  bool possible() const { return possible_; }
  // From here on leaves of the sampled micro-batch are summed up as they come.
  void watch(std::int64_t audit);
  // What came, with the losses; "none" where this rank ran no micro-batch.
  std::string own(std::span<const LossLeaf> losses) const;
  // Computes what the data rank `shift` further on ran, from the data at `cursor`. Collective over
  // all ranks.
  std::string again(int shift, Executor& executor, const DataCursor& cursor, double seed);
  void end() { plan_.tap(nullptr); }

  int owner(int shift) const;        // the data rank whose piece again(shift) computes
  int sampled(int data_rank) const;  // its micro-batch; -1: it runs none

 private:
  using Leaves = std::map<std::tuple<int, int, int>, std::uint64_t>;  // by use, piece, sequence
  void tap(int micro_batch, Leaves& leaves, bool takes);
  std::string digest(const Leaves& leaves, int micro_batch, std::span<const LossLeaf> losses) const;

  const Config& config_;
  const Mesh& mesh_;
  Plan& plan_;
  const std::shared_ptr<const Dataset> dataset_;
  bool possible_ = false;
  std::int64_t audit_ = 0;
  Leaves own_;
};

}  // namespace shardproof

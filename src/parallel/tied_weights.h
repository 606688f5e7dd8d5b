// tied_weights: one weight with two uses, by the embedding and by the head. Each use has gradients
// of its own, summed over all micro-batches first; then head is added to embedding. The embedding's
// unit owns the state. With pipeline stages the head's rank keeps a copy of the values, and shares
// of gradients and values cross between the first and the last stage. Collective: both calls, over
// the ranks of a pipeline that hold one of the units. Thread rule: one rank's thread.
#pragma once

#include "comm/communicator.h"
#include "parallel/unit.h"

namespace shardproof {

class TiedWeights {
 public:
  // Null: the unit is on another stage. The units and `pipeline` outlive this.
  TiedWeights(Communicator& pipeline, Unit* embedding, Unit* head)
      : pipeline_(pipeline), embedding_(embedding), head_(head) {}

  // Between reduce_share() of both units and finish_reduce() of the embedding's.
  void add_gradients(float* embedding_share, float* head_share);
  // After an update or a load: the head's copy gets the new values.
  void copy_values();

 private:
  Communicator& pipeline_;
  Unit* const embedding_;
  Unit* const head_;
};

}  // namespace shardproof

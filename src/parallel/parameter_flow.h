// parameter_flow: which units of a model are whole when (Zhao et al., "PyTorch FSDP", 2023). The
// unit in use is whole, the next ones in the direction of the pass are being gathered ahead, all
// others hold shares alone. Where reshard_after_forward is off, a unit gathered in forward stays
// until its backward has gone by.
// Guarantee: without that, at most 1 + prefetch units are whole or under way at any moment.
// Collective over the gather group: all its ranks enter the same units in the same order.
// Thread rule: one rank's thread.
#pragma once

#include <vector>

#include "model/seams.h"
#include "parallel/plan_options.h"
#include "parallel/unit_parameters.h"

namespace shardproof {

class ParameterFlow {
 public:
  // Units in the order of a forward pass (one may be there twice); chunk_of[u] is the model chunk
  // of unit u: nothing is gathered ahead across chunks.
  ParameterFlow(std::vector<UnitParameters*> units, std::vector<int> chunk_of, FlowOptions options);

  // The model is about to use a parameter of unit `u`.
  void enter(int u, Pass pass);
  // After the last pass of a step: every unit gives up what it gathered.
  void end();

 private:
  bool in_window(int u, int from, int step, int depth) const;

  const std::vector<UnitParameters*> units_;
  const std::vector<int> chunk_of_;
  const FlowOptions options_;
  std::vector<bool> kept_;  // gathered in forward, to stay until backward
  int current_ = -1;
  bool backward_ = false;  // the pass of current_
};

}  // namespace shardproof

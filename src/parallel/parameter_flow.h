// parameter_flow: which units of a model are whole when (Zhao et al., "PyTorch FSDP", 2023). The
// unit in use is whole, the next ones in the direction of the pass are being gathered ahead, all
// others hold shares alone. A backward does not use the embedding: it is gathered ahead there only
// where a forward of its chunk comes next. Where reshard_after_forward is off, a unit gathered in
// forward stays until its backward has gone by.
// Guarantee: without that, at most 1 + prefetch units are whole or under way at any moment.
// Collective over the gather group: all its ranks enter the same units in the same order.
// Thread rule: one rank's thread.
#pragma once

#include <utility>
#include <vector>

#include "model/seams.h"
#include "parallel/plan_options.h"
#include "parallel/unit_parameters.h"

namespace shardproof {

struct FlowUnit {
  UnitParameters* parameters = nullptr;  // outlives the flow; may be those of two units
  int chunk = 0;                         // of the model: nothing is gathered ahead across chunks
  bool used_in_backward = true;
};

class ParameterFlow {
 public:
  // Units in the order of a forward pass.
  ParameterFlow(std::vector<FlowUnit> units, FlowOptions options)
      : units_(std::move(units)), options_(options), kept_(units_.size(), false) {}

  // The model is about to use a parameter of unit `u`. `forward_next`: the pass after this one is a
  // forward of the same chunk.
  void enter(int u, Pass pass, bool forward_next);
  // After the last pass of a step: every unit gives up what it gathered.
  void end();

 private:
  std::vector<UnitParameters*> window(int u, bool backward, bool forward_next) const;

  const std::vector<FlowUnit> units_;
  const FlowOptions options_;
  std::vector<bool> kept_;  // gathered in forward, to stay until backward
  int current_ = -1;
  bool backward_ = false;  // the pass of current_
};

}  // namespace shardproof

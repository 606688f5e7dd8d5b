// parameter_flow: a window over the units that moves with the pass.
#include "parallel/parameter_flow.h"

#include <algorithm>

namespace shardproof {

// Unit u, then those to be gathered ahead, nearest first.
std::vector<UnitParameters*> ParameterFlow::window(int u, bool backward, bool forward_next) const {
  const int step = backward ? -1 : 1;
  const int depth = backward ? options_.prefetch_backward : options_.prefetch_forward;
  const int chunk = units_[static_cast<std::size_t>(u)].chunk;
  std::vector<UnitParameters*> out;
  for (int k = 0; k <= depth; ++k) {
    const int next = u + k * step;
    if (next < 0 || next >= static_cast<int>(units_.size())) break;
    const FlowUnit& unit = units_[static_cast<std::size_t>(next)];
    if (unit.chunk != chunk || (backward && !unit.used_in_backward && !forward_next)) break;
    out.push_back(unit.parameters);
  }
  return out;
}

void ParameterFlow::enter(int u, Pass pass, bool forward_next) {
  const bool backward = pass != Pass::forward;  // a recomputed forward belongs to its backward
  if (u == current_ && backward == backward_) return;
  if (!backward && !options_.reshard_after_forward) kept_[static_cast<std::size_t>(u)] = true;
  if (backward && backward_ && current_ >= 0 && current_ != u) {
    kept_[static_cast<std::size_t>(current_)] = false;
  }
  const std::vector<UnitParameters*> ahead = window(u, backward, forward_next);
  std::vector<UnitParameters*> needed = ahead;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (kept_[i]) needed.push_back(units_[i].parameters);
  }
  for (const FlowUnit& unit : units_) {
    if (std::ranges::find(needed, unit.parameters) == needed.end()) unit.parameters->release();
  }
  ahead[0]->gather();
  for (std::size_t k = 1; k < ahead.size(); ++k) ahead[k]->start_gather();
  current_ = u;
  backward_ = backward;
}

void ParameterFlow::end() {
  for (const FlowUnit& unit : units_) unit.parameters->release();
  kept_.assign(units_.size(), false);
  current_ = -1;
}

}  // namespace shardproof

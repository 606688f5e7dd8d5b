// parameter_flow: a window over the units that moves with the pass.
#include "parallel/parameter_flow.h"

#include <algorithm>
#include <utility>

namespace shardproof {

ParameterFlow::ParameterFlow(std::vector<UnitParameters*> units, std::vector<int> chunk_of,
                             FlowOptions options)
    : units_(std::move(units)),
      chunk_of_(std::move(chunk_of)),
      options_(options),
      kept_(units_.size(), false) {}

// u is `from`, or one of the next `depth` units of its chunk in the direction `step`.
bool ParameterFlow::in_window(int u, int from, int step, int depth) const {
  const int ahead = (u - from) * step;
  return 0 <= ahead && ahead <= depth &&
         chunk_of_[static_cast<std::size_t>(u)] == chunk_of_[static_cast<std::size_t>(from)];
}

void ParameterFlow::enter(int u, Pass pass) {
  const bool backward = pass != Pass::forward;  // a recomputed forward belongs to its backward
  if (u == current_ && backward == backward_) return;
  const int step = backward ? -1 : 1;
  const int depth = backward ? options_.prefetch_backward : options_.prefetch_forward;
  if (!backward && !options_.reshard_after_forward) kept_[static_cast<std::size_t>(u)] = true;
  if (backward && current_ >= 0 && current_ != u) kept_[static_cast<std::size_t>(current_)] = false;
  std::vector<const UnitParameters*> needed;  // by address: a tied unit is there twice
  for (int other = 0; other < static_cast<int>(units_.size()); ++other) {
    const auto i = static_cast<std::size_t>(other);
    if (kept_[i] || in_window(other, u, step, depth)) needed.push_back(units_[i]);
  }
  for (UnitParameters* unit : units_) {
    if (std::ranges::find(needed, unit) == needed.end()) unit->release();
  }
  units_[static_cast<std::size_t>(u)]->gather();
  for (int k = 1; k <= depth; ++k) {
    const int next = u + k * step;
    if (next < 0 || next >= static_cast<int>(units_.size()) || !in_window(next, u, step, depth))
      break;
    units_[static_cast<std::size_t>(next)]->start_gather();
  }
  current_ = u;
  backward_ = backward;
}

void ParameterFlow::end() {
  for (UnitParameters* unit : units_) unit->release();
  kept_.assign(units_.size(), false);
  current_ = -1;
}

}  // namespace shardproof

// gather_cost: sets of units by use, and what is new in each.
#include "parallel/gather_cost.h"

#include <algorithm>
#include <set>

namespace shardproof {
namespace {

struct Use {
  int unit = 0;
  bool backward = false;
  bool forward_next = false;  // a forward of the same chunk comes after this pass
  bool operator==(const Use& other) const {
    return unit == other.unit && backward == other.backward;
  }
};

bool is_pass(const Action& action) {
  return action.kind != ActionKind::backward_weight;  // which needs no parameters
}

// One after the other, each once where it follows itself.
std::vector<Use> uses_of(const std::vector<UnitSpec>& units, const Schedule& schedule) {
  Schedule passes;
  std::ranges::copy_if(schedule, std::back_inserter(passes), is_pass);
  std::vector<Use> uses;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const bool backward = passes[i].kind != ActionKind::forward;
    const bool forward_next = i + 1 < passes.size() && passes[i + 1].chunk == passes[i].chunk &&
                              passes[i + 1].kind == ActionKind::forward;
    std::vector<Use> pass;
    for (int u = 0; u < static_cast<int>(units.size()); ++u) {
      const UnitSpec& unit = units[static_cast<std::size_t>(u)];
      if (unit.chunk != passes[i].chunk || (backward && !unit.used_in_backward)) continue;
      pass.push_back({u, backward, forward_next});
    }
    if (backward) std::ranges::reverse(pass);
    uses.insert(uses.end(), pass.begin(), pass.end());
  }
  uses.erase(std::unique(uses.begin(), uses.end()), uses.end());
  return uses;
}

// The unit of a use and those ahead of it, nearest first.
std::vector<int> ahead_of(const Use& use, const std::vector<UnitSpec>& units,
                          const FlowOptions& options) {
  const int depth = use.backward ? options.prefetch_backward : options.prefetch_forward;
  std::vector<int> out;
  for (int k = 0; k <= depth; ++k) {
    const int u = use.backward ? use.unit - k : use.unit + k;
    if (u < 0 || u >= static_cast<int>(units.size())) break;
    const UnitSpec& unit = units[static_cast<std::size_t>(u)];
    if (unit.chunk != units[static_cast<std::size_t>(use.unit)].chunk) break;
    if (use.backward && !unit.used_in_backward && !use.forward_next) break;
    out.push_back(u);
  }
  return out;
}

}  // namespace

std::vector<int> predicted_gathers(const std::vector<UnitSpec>& units, const Schedule& schedule,
                                   const FlowOptions& options) {
  // Both uses of a tied weight on one rank have the same parameters.
  const auto parameters = [&](int u) {
    const auto of_first_use = [&](const UnitSpec& unit) { return unit.tied && unit.use == 0; };
    const auto first = std::ranges::find_if(units, of_first_use);
    const bool shares = units[static_cast<std::size_t>(u)].tied && first != units.end();
    return shares ? static_cast<int>(first - units.begin()) : u;
  };
  std::vector<int> gathers;
  std::set<int> waiting;  // for their backward
  std::set<int> before;   // parameters that the use before needed
  const Use* last = nullptr;
  const auto uses = uses_of(units, schedule);
  for (const Use& use : uses) {
    if (!use.backward && !options.reshard_after_forward) waiting.insert(use.unit);
    if (use.backward && last != nullptr && last->backward && last->unit != use.unit) {
      waiting.erase(last->unit);
    }
    std::set<int> needed;
    for (const int u : waiting) needed.insert(parameters(u));
    for (const int u : ahead_of(use, units, options)) {
      needed.insert(parameters(u));
      if (before.insert(parameters(u)).second) gathers.push_back(u);
    }
    before = std::move(needed);
    last = &use;
  }
  return gathers;
}

}  // namespace shardproof

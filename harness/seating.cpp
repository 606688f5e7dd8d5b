// seating: by the number of ready ranks, else of all.
#include "harness/seating.h"

#include <algorithm>

#include "harness/smaller_layout.h"

namespace shardproof {

std::optional<Seating> seating(const Config& config, const std::vector<bool>& ready, bool anew) {
  const auto alive = static_cast<int>(ready.size());
  const auto largest = smaller_layout(config, alive);
  if (!largest) return std::nullopt;
  const auto count = static_cast<int>(std::count(ready.begin(), ready.end(), true));
  const auto of_ready = anew ? std::nullopt : smaller_layout(config, count);
  const Layout& layout = of_ready ? *of_ready : *largest;
  Seating out{layout.print(), {}, largest->world() > layout.world()};
  for (int rank = 0; rank < alive; ++rank) {
    const bool may = !of_ready || ready[static_cast<std::size_t>(rank)];
    if (may && static_cast<int>(out.workers.size()) < layout.world()) out.workers.push_back(rank);
  }
  return out;
}

}  // namespace shardproof

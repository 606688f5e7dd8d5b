// smaller_layout: all layouts below the given one, in the order of preference.
#include "harness/smaller_layout.h"

#include "base/error.h"

namespace shardproof {
namespace {

// By the rules of a whole config: what else it asks for may fix a degree.
bool is_legal(Config config, const Layout& layout) {
  config.run.layout = layout.print();
  config.run.fault.clear();  // may name a rank that is gone
  try {
    check(config);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// With what has no meaning at these degrees left out, as its print parses.
Layout normalized(Layout layout) {
  if (layout.tp == 1) layout.sequence_parallel = false;
  if (layout.shard_group > 0 && layout.dp % layout.shard_group != 0) layout.shard_group = 0;
  return parse_layout(layout.print());
}

}  // namespace

std::optional<Layout> smaller_layout(const Config& config, int ranks) {
  const Layout full = parse_layout(config.run.layout);
  if (full.world() <= ranks) return full;
  if (config.numerics.reduction == "native") return std::nullopt;
  std::optional<Layout> best;
  Layout layout = full;
  for (layout.pp = full.pp; layout.pp >= 1; --layout.pp) {
    for (layout.tp = full.tp; layout.tp >= 1; --layout.tp) {
      for (layout.cp = full.cp; layout.cp >= 1; --layout.cp) {
        for (layout.dp = full.dp; layout.dp >= 1; --layout.dp) {
          if (layout.world() > ranks || (best && layout.world() <= best->world())) continue;
          const Layout candidate = normalized(layout);
          if (is_legal(config, candidate)) best = candidate;
        }
      }
    }
  }
  return best;
}

}  // namespace shardproof

// smaller_layout: the layout on which a run goes on when fewer ranks are left. Of the legal layouts
// of at most `ranks` ranks in which no degree grows and every part keeps its kind (sp, context
// kind, schedule, ZeRO stage), the one with the most ranks; of equal ones the one that keeps more
// of pp, then of tp, then of cp, and so gives up dp first. A layout that fits stays as it is. A
// shard group that no longer divides dp becomes the whole data axis. parallel.stage_layers fixes
// pp, training.accumulation fixes dp.
// Under native reduction bits depend on the layout: only a layout that fits is given back.
// Torch-free. Thread rule: pure.
#pragma once

#include <optional>

#include "mesh/layout.h"
#include "train/config.h"

namespace shardproof {

// Nothing: there is none. `config.run.fault` has no part in it. Precondition: check(config) passes.
std::optional<Layout> smaller_layout(const Config& config, int ranks);

}  // namespace shardproof

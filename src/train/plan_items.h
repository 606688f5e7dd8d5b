// plan_items: what a plan holds as items of a checkpoint (SaveItem, LoadItem): each block of the
// state on exactly one rank. The data are the plan's own, valid as Plan::shards says.
// Thread rule: the rank's thread.
#pragma once

#include <string>
#include <vector>

#include "parallel/plan.h"

namespace shardproof {

// Adds this rank's shards of `kind` ("param", "master", ...), named `what` in the checkpoint.
template <typename Item>
void append_items(std::vector<Item>& out, Plan& plan, const std::string& kind,
                  const std::string& what) {
  for (const StateShard& shard : plan.shards(kind, false)) {
    const auto& piece = plan.table().pieces().at(static_cast<std::size_t>(shard.piece_index));
    out.push_back({what, piece, shard.range, Dtype::f32, shard.data});
  }
}

}  // namespace shardproof

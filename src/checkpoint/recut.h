// recut: reads pieces that are cut otherwise than those of the checkpoint: the same parameter with
// the same global shape and dtype, in other boxes. For weights that begin another run; a strict
// resume asks for the pieces that were saved (load.h).
// Memory: one piece of the checkpoint and one of the reader. Torch-free. Thread rule: as load.h.
#pragma once

#include <span>

#include "checkpoint/load.h"

namespace shardproof {

// Every block that is read is verified first. Error refused: no such parameter, another global
// shape or dtype; corrupt as load_state. What items then hold is unspecified.
void load_recut(Storage& storage, const Manifest& manifest, std::span<const LoadItem> items);

// The element runs that two boxes of one tensor share, each row-major within its box: `count`
// elements from `from` in a to `to` in b. Pure. SP_CHECK: the same number of dims.
struct SharedRun {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t count = 0;
  bool operator==(const SharedRun&) const = default;
};
std::vector<SharedRun> shared_runs(const Box& a, const Box& b);

}  // namespace shardproof

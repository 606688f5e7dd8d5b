// reshard: which blocks of a checkpoint a rank of any layout reads, and where they go. A pure map
// from the entries of a manifest to reads: what wrote the entries (ranks, stages, shares) does not
// matter, because an entry is found by the name of its piece and never by its file.
// Guarantee: the reads of an item cover it exactly once, ascending, and touch no byte beside it.
// Torch-free. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "checkpoint/load.h"

namespace shardproof {

// A run of whole blocks of one entry.
struct BlockRead {
  std::size_t entry = 0;    // into Manifest::entries
  std::int64_t first = 0;   // block of the entry
  std::int64_t blocks = 0;  // at least 1
  std::int64_t at = 0;      // the element of the item where they begin
  bool operator==(const BlockRead&) const = default;
};

// Error bad_input unless the item is a run of whole blocks of its piece; refused unless the
// checkpoint holds this piece with the same dtype, cut and shape. Empty for an empty range.
std::vector<BlockRead> reads_of(const Manifest& manifest, const LoadItem& item);

}  // namespace shardproof

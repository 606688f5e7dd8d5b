// bucket_map: gradients grouped into buckets for native data parallelism (Li et al., "PyTorch
// Distributed", 2020): pieces in the order in which a backward makes their gradients ready, cut
// into runs of at least `bucket_bytes` (the last may be smaller). A bucket travels as soon as it
// and all before it are ready, so every rank sends the same buckets in the same order. Pure;
// torch-free.
#pragma once

#include <cstdint>
#include <vector>

#include "base/piece.h"

namespace shardproof {

// Piece indices of `table` in the order their gradients become ready: the head first, then the
// blocks from the last to the first, then the embedding; inside a block in the order of its
// backward.
std::vector<int> ready_order(const PieceTable& table);

// By bucket: piece indices of `table`, in ready order. Precondition: bucket_bytes > 0.
std::vector<std::vector<int>> bucket_map(const PieceTable& table, std::int64_t bucket_bytes);

}  // namespace shardproof

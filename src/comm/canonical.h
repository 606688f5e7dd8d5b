// canonical: reductions whose order is tree(n) over logical leaves (base/tree.h), whatever the
// number of ranks: subtrees travel to the owner of each range (all-to-all) and the owner adds them
// in tree order; an all-gather after it makes the all-reduce. One rank is a layout, not a second
// code path. Sums are plain loops of additions in the element type (f32 or f64; 16-bit partials are
// to be widened first). Bytes sent per rank = subtrees it holds x (size - own share).
// Thread rule: as the communicator.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/tree.h"
#include "comm/communicator.h"

namespace shardproof::canonical {

// Who owns which of the n leaves: owned[r] are rank r's leaves. Every leaf is owned exactly once
// (SP_CHECK); a rank may own none.
struct LeafOwners {
  int leaves = 0;
  std::vector<std::vector<int>> owned;

  std::vector<Node> subtrees(int rank) const;  // owned_subtrees of that rank, ascending
  // Contiguous, balanced ownership: rank r owns [n*r/ranks, n*(r+1)/ranks).
  static LeafOwners contiguous(int leaves, int ranks);
};

// This rank's subtree sums, one per node of owners.subtrees(rank), same order; each points to
// sum(shares) elements. Only read, but for `out` where that lies inside.
using Subtrees = std::span<const void* const>;

// out: shares[rank] elements, the canonical sum of this rank's range. `out` may lie inside the
// first subtree at the place of the own share (in place), else it overlaps nothing.
// storage: for what the others send, aligned for dtype; when it is smaller than storage_bytes, the
// call allocates its own, which costs more than the reduction itself (fresh pages, every time).
void reduce_scatter(Communicator& comm, const LeafOwners& owners, Subtrees subtrees,
                    const std::vector<std::size_t>& shares, Dtype dtype, void* out,
                    std::span<std::byte> storage = {});
std::size_t storage_bytes(const LeafOwners& owners, const std::vector<std::size_t>& shares,
                          int rank, Dtype dtype);

// out: `count` elements on every rank. Shares are balanced by elements.
void all_reduce(Communicator& comm, const LeafOwners& owners, Subtrees subtrees, std::size_t count,
                Dtype dtype, void* out);

// Scalars: `mine` holds one value per leaf this rank owns, in ascending leaf order; the result is
// the canonical sum, the same bits on every rank. (All values are gathered, then added locally.)
double sum_scalars(Communicator& comm, const LeafOwners& owners, std::span<const double> mine);

// out[i] = left[i] + right[i]: the one addition (f32 or f64). `out` may be `left` or `right`.
void add(void* out, const void* left, const void* right, std::size_t count, Dtype dtype);
// left[i] = left[i] + right[i].
void add_into(void* left, const void* right, std::size_t count, Dtype dtype);

}  // namespace shardproof::canonical

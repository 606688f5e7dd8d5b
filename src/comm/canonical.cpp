// canonical: subtrees to their owners (all-to-all, one round per subtree a rank holds, so that
// nothing is packed), then the tree's additions at the owner, tile by tile.
#include "comm/canonical.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>

#include "base/check.h"

namespace shardproof::canonical {

namespace {

std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::vector<std::vector<Node>> all_subtrees(const LeafOwners& owners) {
  std::vector<std::vector<Node>> subtrees;
  for (int r = 0; r < static_cast<int>(owners.owned.size()); ++r) {
    subtrees.push_back(owners.subtrees(r));
  }
  return subtrees;
}

void check_owners(const LeafOwners& owners, int ranks) {
  SP_CHECK_EQ(owners.owned.size(), static_cast<std::size_t>(ranks));
  std::vector<int> seen;
  for (const auto& owned : owners.owned) seen.insert(seen.end(), owned.begin(), owned.end());
  std::sort(seen.begin(), seen.end());
  std::vector<int> wanted(static_cast<std::size_t>(owners.leaves));
  std::iota(wanted.begin(), wanted.end(), 0);
  SP_CHECK(owners.leaves > 0 && seen == wanted, "every leaf has exactly one owner");
}

// What the tree over the present nodes amounts to: parts[to] = parts[to] + parts[from], in order;
// the sum is then at `root`, and the last addition is the one that makes it.
struct Addition {
  std::size_t to;
  std::size_t from;
};

struct Additions {
  std::vector<Addition> list;
  std::size_t root;
};

Additions additions_of(const std::map<Node, std::size_t>& parts, int leaves) {
  Additions additions;
  const auto note = [&](std::size_t left, std::size_t right) {
    additions.list.push_back({left, right});
    return left;
  };
  const auto root = tree_sum<std::size_t>(parts, 0, leaves, note);
  SP_CHECK(root.has_value(), "a tree without leaves");
  additions.root = *root;
  return additions;
}

std::size_t storage_bytes_of(const std::vector<std::vector<Node>>& nodes, std::size_t me,
                             std::size_t part_bytes) {
  std::size_t parts = 0;
  for (std::size_t r = 0; r < nodes.size(); ++r) {
    if (r != me) parts += nodes[r].size();
  }
  return parts * part_bytes;
}

// The own range of each subtree, by node.
using Parts = std::map<Node, const std::byte*>;

// Sends the ranges of this rank's subtrees to their owners. The parts of the own range: those of
// others arrive in `storage`, the own ones stay where they are.
Parts exchange(Communicator& comm, const std::vector<std::vector<Node>>& nodes, Subtrees subtrees,
               const std::vector<std::size_t>& shares, Dtype dtype, std::byte* storage) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto me = static_cast<std::size_t>(comm.rank());
  std::size_t rounds = 0;
  for (const auto& held : nodes) rounds = std::max(rounds, held.size());
  const std::size_t part_bytes = shares[me] * size_of(dtype);
  const std::size_t own_begin =
      std::accumulate(shares.begin(), shares.begin() + comm.rank(), std::size_t{0}) *
      size_of(dtype);
  Parts parts;
  std::byte* next = storage;
  for (std::size_t round = 0; round < rounds; ++round) {
    const bool mine = round < nodes[me].size();
    if (mine) {
      parts[nodes[me][round]] = static_cast<const std::byte*>(subtrees[round]) + own_begin;
    }
    std::vector<std::size_t> receives(ranks, 0);
    std::byte* const begin = next;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r == me || round >= nodes[r].size()) continue;
      receives[r] = shares[me];
      parts[nodes[r][round]] = next;
      next += part_bytes;
    }
    all_to_all_v(comm, mine ? subtrees[round] : nullptr, begin,
                 mine ? shares : std::vector<std::size_t>(ranks, 0), receives, dtype);
  }
  return parts;
}

// The tree, a tile at a time, so that every part is read from memory once. Sums on the way lie in
// tiles of their own: the parts are only read, and `out` is not written before all have been.
void add_up(const Parts& parts, int leaves, std::size_t count, Dtype dtype, std::byte* out) {
  constexpr std::size_t tile = std::size_t{1} << 14;  // bytes
  std::vector<const std::byte*> begins;
  std::map<Node, std::size_t> index;
  for (const auto& [node, data] : parts) {
    index[node] = begins.size();
    begins.push_back(data);
  }
  const Additions additions = additions_of(index, leaves);
  const std::size_t width = size_of(dtype);
  if (additions.list.empty()) {
    const std::byte* only = begins[additions.root];
    if (only != out && count > 0) std::memcpy(out, only, count * width);
    return;
  }
  const std::span<const Addition> on_the_way(additions.list.data(), additions.list.size() - 1);
  const Addition last = additions.list.back();
  std::vector<std::byte> sums(on_the_way.empty() ? 0 : begins.size() * tile);
  std::vector<const std::byte*> at(begins.size());
  for (std::size_t begin = 0; begin < count; begin += tile / width) {
    const std::size_t n = std::min(tile / width, count - begin);
    for (std::size_t i = 0; i < at.size(); ++i) at[i] = begins[i] + begin * width;
    for (const auto& [to, from] : on_the_way) {
      std::byte* const sum = sums.data() + to * tile;
      add(sum, at[to], at[from], n, dtype);
      at[to] = sum;
    }
    add(out + begin * width, at[last.to], at[last.from], n, dtype);
  }
}

// Apart by overlap, since a compiler vectorises only what it can tell apart.
template <typename T>
void add_loop(void* out, const void* left, const void* right, std::size_t count) {
  auto* to = static_cast<T*>(out);
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  if (to == a) {
    for (std::size_t i = 0; i < count; ++i) to[i] = to[i] + b[i];
  } else if (to == b) {
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + to[i];
  } else {
    for (std::size_t i = 0; i < count; ++i) to[i] = a[i] + b[i];
  }
}

}  // namespace

std::vector<Node> LeafOwners::subtrees(int rank) const {
  return owned_subtrees(owned[static_cast<std::size_t>(rank)], leaves);
}

LeafOwners LeafOwners::contiguous(int leaves, int ranks) {
  SP_CHECK_LT(0, leaves);
  SP_CHECK_LT(0, ranks);
  LeafOwners owners{leaves, std::vector<std::vector<int>>(static_cast<std::size_t>(ranks))};
  const auto begin_of = [&](int r) { return static_cast<int>(std::int64_t{leaves} * r / ranks); };
  for (int r = 0; r < ranks; ++r) {
    for (int leaf = begin_of(r); leaf < begin_of(r + 1); ++leaf) {
      owners.owned[static_cast<std::size_t>(r)].push_back(leaf);
    }
  }
  return owners;
}

std::size_t storage_bytes(const LeafOwners& owners, const std::vector<std::size_t>& shares,
                          int rank, Dtype dtype) {
  check_owners(owners, static_cast<int>(shares.size()));
  const auto me = static_cast<std::size_t>(rank);
  return storage_bytes_of(all_subtrees(owners), me, shares[me] * size_of(dtype));
}

void reduce_scatter(Communicator& comm, const LeafOwners& owners, Subtrees subtrees,
                    const std::vector<std::size_t>& shares, Dtype dtype, void* out,
                    std::span<std::byte> storage) {
  check_owners(owners, comm.size());
  SP_CHECK_EQ(shares.size(), static_cast<std::size_t>(comm.size()));
  const auto nodes = all_subtrees(owners);
  const auto me = static_cast<std::size_t>(comm.rank());
  SP_CHECK_EQ(subtrees.size(), nodes[me].size());
  const std::size_t needed = storage_bytes_of(nodes, me, shares[me] * size_of(dtype));
  std::unique_ptr<std::byte[]> own_storage;
  if (storage.size() < needed) {
    own_storage = std::make_unique_for_overwrite<std::byte[]>(needed);
    storage = {own_storage.get(), needed};
  }
  const Parts parts = exchange(comm, nodes, subtrees, shares, dtype, storage.data());
  add_up(parts, owners.leaves, shares[me], dtype, static_cast<std::byte*>(out));
}

void all_reduce(Communicator& comm, const LeafOwners& owners, Subtrees subtrees, std::size_t count,
                Dtype dtype, void* out) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  std::vector<std::size_t> shares(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    shares[r] = count * (r + 1) / ranks - count * r / ranks;
  }
  const auto rank = static_cast<std::size_t>(comm.rank());
  std::byte* mine = static_cast<std::byte*>(out) + count * rank / ranks * size_of(dtype);
  reduce_scatter(comm, owners, subtrees, shares, dtype, mine);
  all_gather_v(comm, mine, out, shares, dtype);
}

double sum_scalars(Communicator& comm, const LeafOwners& owners, std::span<const double> mine) {
  check_owners(owners, comm.size());
  SP_CHECK_EQ(mine.size(), owners.owned[static_cast<std::size_t>(comm.rank())].size());
  std::vector<std::size_t> counts;
  for (const auto& owned : owners.owned) counts.push_back(owned.size());
  std::vector<double> values(sum(counts));
  all_gather_v(comm, mine.data(), values.data(), counts, Dtype::f64);

  std::map<Node, double> leaves;
  std::size_t next = 0;
  for (std::vector<int> owned : owners.owned) {
    std::sort(owned.begin(), owned.end());
    for (const int leaf : owned) leaves[{leaf, leaf + 1}] = values[next++];
  }
  return *tree_sum<double>(leaves, 0, owners.leaves, [](double a, double b) { return a + b; });
}

void add(void* out, const void* left, const void* right, std::size_t count, Dtype dtype) {
  SP_CHECK(dtype == Dtype::f32 || dtype == Dtype::f64,
           "canonical sums are of f32 or f64 (widen 16-bit partials first)");
  if (dtype == Dtype::f32) return add_loop<float>(out, left, right, count);
  add_loop<double>(out, left, right, count);
}

void add_into(void* left, const void* right, std::size_t count, Dtype dtype) {
  add(left, left, right, count, dtype);
}

}  // namespace shardproof::canonical

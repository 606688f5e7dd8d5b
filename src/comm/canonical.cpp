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
// the sum is then at `root`.
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
  const auto add = [&](std::size_t left, std::size_t right) {
    additions.list.push_back({left, right});
    return left;
  };
  const auto root = tree_sum<std::size_t>(parts, 0, leaves, add);
  SP_CHECK(root.has_value(), "a tree without leaves");
  additions.root = *root;
  return additions;
}

// Sends the ranges of this rank's subtrees to their owners. Returns the parts of the own range:
// `count` elements each, in `storage`, keyed by node.
std::map<Node, std::byte*> exchange(Communicator& comm, const std::vector<std::vector<Node>>& nodes,
                                    Subtrees subtrees, const std::vector<std::size_t>& shares,
                                    Dtype dtype, std::unique_ptr<std::byte[]>& storage) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  const auto me = static_cast<std::size_t>(comm.rank());
  std::size_t rounds = 0, all = 0;
  for (const auto& held : nodes) {
    rounds = std::max(rounds, held.size());
    all += held.size();
  }
  const std::size_t part_bytes = shares[me] * size_of(dtype);
  storage = std::make_unique_for_overwrite<std::byte[]>(all * part_bytes);
  std::map<Node, std::byte*> parts;
  std::byte* next = storage.get();
  for (std::size_t round = 0; round < rounds; ++round) {
    const bool mine = round < nodes[me].size();
    std::vector<std::size_t> receives(ranks, 0);
    std::byte* const begin = next;
    for (std::size_t r = 0; r < ranks; ++r) {
      if (round >= nodes[r].size()) continue;
      receives[r] = shares[me];
      parts[nodes[r][round]] = next;
      next += part_bytes;
    }
    all_to_all_v(comm, mine ? subtrees[round] : nullptr, begin,
                 mine ? shares : std::vector<std::size_t>(ranks, 0), receives, dtype);
  }
  return parts;
}

// The tree, `tile` bytes at a time, so that every part is read from memory once.
void add_up(const std::map<Node, std::byte*>& parts, int leaves, std::size_t count, Dtype dtype,
            void* out) {
  constexpr std::size_t tile = std::size_t{1} << 14;
  std::vector<std::byte*> at;
  std::map<Node, std::size_t> index;
  for (const auto& [node, data] : parts) {
    index[node] = at.size();
    at.push_back(data);
  }
  const Additions additions = additions_of(index, leaves);
  const std::size_t width = size_of(dtype);
  for (std::size_t begin = 0; begin < count; begin += tile / width) {
    const std::size_t n = std::min(tile / width, count - begin);
    for (const auto& [to, from] : additions.list) {
      add_into(at[to] + begin * width, at[from] + begin * width, n, dtype);
    }
    std::memcpy(static_cast<std::byte*>(out) + begin * width, at[additions.root] + begin * width,
                n * width);
  }
}

template <typename T>
void add_loop(void* left, const void* right, std::size_t count) {
  auto* to = static_cast<T*>(left);
  const auto* from = static_cast<const T*>(right);
  for (std::size_t i = 0; i < count; ++i) to[i] = to[i] + from[i];
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

void reduce_scatter(Communicator& comm, const LeafOwners& owners, Subtrees subtrees,
                    const std::vector<std::size_t>& shares, Dtype dtype, void* out) {
  check_owners(owners, comm.size());
  SP_CHECK_EQ(shares.size(), static_cast<std::size_t>(comm.size()));
  const auto nodes = all_subtrees(owners);
  SP_CHECK_EQ(subtrees.size(), nodes[static_cast<std::size_t>(comm.rank())].size());
  std::unique_ptr<std::byte[]> storage;
  const auto parts = exchange(comm, nodes, subtrees, shares, dtype, storage);
  add_up(parts, owners.leaves, shares[static_cast<std::size_t>(comm.rank())], dtype, out);
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

void add_into(void* left, const void* right, std::size_t count, Dtype dtype) {
  SP_CHECK(dtype == Dtype::f32 || dtype == Dtype::f64,
           "canonical sums are of f32 or f64 (widen 16-bit partials first)");
  if (dtype == Dtype::f32) return add_loop<float>(left, right, count);
  add_loop<double>(left, right, count);
}

}  // namespace shardproof::canonical

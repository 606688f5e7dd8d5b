// conformance_canonical: the canonical reductions give, on any number of ranks and any ownership of
// the leaves, the bits of the tree on one rank; and make exactly the predicted calls. For tests.
#pragma once

#include <map>
#include <optional>

#include "base/philox.h"
#include "base/tree.h"
#include "comm/canonical.h"
#include "comm/conformance_values.h"

namespace shardproof::conformance {

using Vector = std::vector<double>;  // as f64, or rounded to f32 where that travels

struct CanonicalCase {
  canonical::LeafOwners owners;
  std::vector<std::size_t> shares;
  Dtype dtype = Dtype::f32;
  std::uint64_t seed = 0;
};

// Each leaf owned by a random rank (some own none), shares of random length (some zero).
inline CanonicalCase random_case(int ranks, int number) {
  const Random random(static_cast<std::uint64_t>(number), Purpose::test);
  std::uint64_t next = 0;
  CanonicalCase drawn;
  drawn.seed = static_cast<std::uint64_t>(number);
  drawn.dtype = number % 2 == 0 ? Dtype::f32 : Dtype::f64;
  drawn.owners.leaves = 1 + static_cast<int>(random.below(13, next++));
  drawn.owners.owned.resize(static_cast<std::size_t>(ranks));
  for (int leaf = 0; leaf < drawn.owners.leaves; ++leaf) {
    drawn.owners.owned[random.below(static_cast<std::uint64_t>(ranks), next++)].push_back(leaf);
  }
  for (int r = 0; r < ranks; ++r) drawn.shares.push_back(random.below(4, next++) * 17);
  return drawn;
}

template <typename T>
std::vector<T> leaf_values(std::uint64_t seed, int leaf, std::size_t count) {
  const Random random(seed, Purpose::test, static_cast<std::uint32_t>(leaf) + 1);
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = static_cast<T>(random.normal(i)) * static_cast<T>(i % 7 == 0 ? 1e6 : 0.1);
    if (i % 11 == 3) values[i] = static_cast<T>(-0.0);  // in every leaf: the sum is -0 as well
  }
  return values;
}

// The sum of the given leaves under `node`, by plain additions.
template <typename T>
std::vector<T> subtree(std::uint64_t seed, const std::vector<int>& leaves, Node node,
                       std::size_t count) {
  std::map<Node, std::vector<T>> parts;
  for (const int leaf : leaves) parts[{leaf, leaf + 1}] = leaf_values<T>(seed, leaf, count);
  const auto add = [](const std::vector<T>& left, const std::vector<T>& right) {
    std::vector<T> sum(left.size());
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = left[i] + right[i];
    return sum;
  };
  return *tree_sum<std::vector<T>>(parts, node.lo, node.hi, add);
}

template <typename T>
bool same_bits(const T* a, const T* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

template <typename T>
void check_canonical_as(Communicator& comm, const Backend& backend, const CanonicalCase& drawn) {
  const auto me = static_cast<std::size_t>(comm.rank());
  std::size_t all = 0, offset = 0;
  for (std::size_t r = 0; r < drawn.shares.size(); ++r) {
    if (r == me) offset = all;
    all += drawn.shares[r];
  }
  std::vector<int> leaves(static_cast<std::size_t>(drawn.owners.leaves));
  for (std::size_t i = 0; i < leaves.size(); ++i) leaves[i] = static_cast<int>(i);
  const auto wanted = subtree<T>(drawn.seed, leaves, {0, drawn.owners.leaves}, all);

  std::vector<std::vector<T>> sums;
  std::vector<const void*> pointers;
  for (const Node node : drawn.owners.subtrees(comm.rank())) {
    sums.push_back(subtree<T>(drawn.seed, drawn.owners.owned[me], node, all));
  }
  for (const auto& sum : sums) pointers.push_back(sum.data());

  std::vector<T> reduced(all);
  canonical::all_reduce(comm, drawn.owners, pointers, all, drawn.dtype, reduced.data());
  EXPECT_TRUE(same_bits(reduced.data(), wanted.data(), all)) << "all_reduce";

  const auto predicted =
      predicted_reduce_scatter(drawn.owners, drawn.shares, drawn.dtype, comm.rank(), backend.kind);
  std::uint64_t bytes = 0;
  for (const auto& call : predicted) bytes += call.bytes;
  const Traffic before = comm.traffic();
  std::vector<T> apart(drawn.shares[me]);
  T* out = sums.empty() ? apart.data() : sums[0].data() + offset;  // in place where it can be
  canonical::reduce_scatter(comm, drawn.owners, pointers, drawn.shares, drawn.dtype, out);
  const Traffic after = comm.traffic();
  EXPECT_TRUE(same_bits(out, wanted.data() + offset, drawn.shares[me])) << "reduce_scatter";
  EXPECT_EQ(after.bytes_sent - before.bytes_sent, bytes);
  EXPECT_EQ(after.calls - before.calls, predicted.size());
}

// The same of one value a leaf.
inline void check_sum_scalars(Communicator& comm, const CanonicalCase& drawn) {
  std::map<Node, double> all;
  Vector mine;
  for (int leaf = 0; leaf < drawn.owners.leaves; ++leaf) {
    all[{leaf, leaf + 1}] = leaf_values<double>(drawn.seed, leaf, 1)[0] / 3;
  }
  for (const int leaf : drawn.owners.owned[static_cast<std::size_t>(comm.rank())]) {
    mine.push_back(all.at({leaf, leaf + 1}));
  }
  const double wanted =
      *tree_sum<double>(all, 0, drawn.owners.leaves, [](double a, double b) { return a + b; });
  const double got = canonical::sum_scalars(comm, drawn.owners, mine);
  EXPECT_TRUE(same_bits(&got, &wanted, 1)) << got << " vs " << wanted;
}

inline void check_canonical(Communicator& comm, const Backend& backend,
                            const CanonicalCase& drawn) {
  if (drawn.dtype == Dtype::f32) {
    check_canonical_as<float>(comm, backend, drawn);
  } else {
    check_canonical_as<double>(comm, backend, drawn);
  }
  check_sum_scalars(comm, drawn);
}

// ---- bodies ----
inline void canonical_sums_do_not_depend_on_ownership(Communicator& comm, const Backend& backend) {
  for (int number = 0; number < 30; ++number) {
    SCOPED_TRACE("case " + std::to_string(number));
    check_canonical(comm, backend, random_case(comm.size(), number));
  }
}

inline void canonical_sums_of_contiguous_leaves(Communicator& comm, const Backend& backend) {
  for (const int leaves : {1, 2, 4, 8, 12}) {
    CanonicalCase drawn;
    drawn.owners = canonical::LeafOwners::contiguous(leaves, comm.size());
    drawn.shares.assign(static_cast<std::size_t>(comm.size()), 9'000);  // several tiles
    drawn.shares.back() = 5;
    check_canonical(comm, backend, drawn);
  }
}

}  // namespace shardproof::conformance

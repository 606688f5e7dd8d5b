// ctest: comm
// Canonical reductions for generated ownerships, on threads. The fixed cases that every backend
// runs are in conformance_canonical.h.
#include "comm/canonical.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <span>

#include "comm/conformance_canonical.h"
#include "comm/conformance_threads.h"

namespace shardproof {
namespace {

using conformance::Backend;
using conformance::CanonicalCase;

CanonicalCase generated(int ranks) {
  CanonicalCase drawn;
  drawn.seed = *rc::gen::arbitrary<std::uint64_t>();
  drawn.dtype = *rc::gen::element(Dtype::f32, Dtype::f64);
  drawn.owners.leaves = *rc::gen::inRange(1, 17);
  drawn.owners.owned.resize(static_cast<std::size_t>(ranks));
  for (int leaf = 0; leaf < drawn.owners.leaves; ++leaf) {
    drawn.owners.owned[*rc::gen::inRange<std::size_t>(0, drawn.owners.owned.size())].push_back(
        leaf);
  }
  drawn.shares = *rc::gen::container<std::vector<std::size_t>>(
      static_cast<std::size_t>(ranks), rc::gen::inRange<std::size_t>(0, 40));
  return drawn;
}

RC_GTEST_PROP(Canonical, SumsHaveTheBitsOfOneRank, ()) {
  const int ranks = *rc::gen::inRange(1, 7);
  const CanonicalCase drawn = generated(ranks);
  conformance::on_threads(
      ranks, [&](Communicator& comm) { conformance::check_canonical(comm, Backend{}, drawn); });
  RC_ASSERT(!testing::Test::HasFailure());
}

// Order matters at all: the same leaves summed from left to right give other bits.
TEST(Canonical, TheTreeIsNotALeftToRightSum) {
  const auto leaf = [](int i) { return conformance::leaf_values<float>(1, i, 50); };
  std::vector<float> serial = leaf(0);
  for (int i = 1; i < 7; ++i) {
    const auto next = leaf(i);
    for (std::size_t e = 0; e < serial.size(); ++e) serial[e] += next[e];
  }
  const auto tree = conformance::subtree<float>(1, {0, 1, 2, 3, 4, 5, 6}, {0, 7}, 50);
  EXPECT_FALSE(conformance::same_bits(serial.data(), tree.data(), serial.size()));
}

TEST(LeafOwners, ContiguousIsBalancedAndComplete) {
  const auto owners = canonical::LeafOwners::contiguous(7, 3);
  EXPECT_EQ(owners.leaves, 7);
  const std::vector<std::vector<int>> wanted{{0, 1}, {2, 3}, {4, 5, 6}};
  EXPECT_EQ(owners.owned, wanted);
  EXPECT_EQ(owners.subtrees(1), (std::vector<Node>{{2, 4}}));
  const auto few = canonical::LeafOwners::contiguous(2, 4);
  EXPECT_EQ(few.owned, (std::vector<std::vector<int>>{{}, {0}, {}, {1}}));
  EXPECT_TRUE(few.subtrees(0).empty());
}

TEST(StorageBytes, IsOfTheSubtreesOfOthers) {
  const canonical::LeafOwners odd{6, {{0, 3, 4}, {1, 2, 5}}};  // each holds three leaves apart
  EXPECT_EQ(canonical::storage_bytes(odd, {5, 2}, 0, Dtype::f32), 3u * 5 * 4);
  EXPECT_EQ(canonical::storage_bytes(odd, {5, 2}, 1, Dtype::f64), 3u * 2 * 8);
  EXPECT_EQ(canonical::storage_bytes({2, {{0, 1}, {}}}, {3, 4}, 0, Dtype::f32), 0u);
  EXPECT_EQ(canonical::storage_bytes({4, {{0, 1, 2, 3}}}, {9}, 0, Dtype::f32), 0u);
}

// In storage of the caller no byte past the needed ones is written, and the subtrees stay as they
// were but for the place of the sum.
TEST(ReduceScatter, ReceivesIntoTheCallersStorage) {
  conformance::on_threads(2, [](Communicator& comm) {
    const auto owners = canonical::LeafOwners::contiguous(3, 2);  // {0}; {1}, {2}
    const std::vector<std::size_t> shares{6'000, 5};
    const auto me = static_cast<std::size_t>(comm.rank());
    const std::size_t begin = comm.rank() == 0 ? 0 : shares[0];
    std::vector<std::vector<float>> sums;
    std::vector<const void*> pointers;
    for (const Node node : owners.subtrees(comm.rank())) {
      sums.push_back(conformance::leaf_values<float>(1, node.lo, 6'005));
    }
    for (const auto& sum : sums) pointers.push_back(sum.data());
    auto expected = sums;
    const auto wanted = conformance::subtree<float>(1, {0, 1, 2}, {0, 3}, 6'005);
    std::copy_n(wanted.data() + begin, shares[me], expected[0].data() + begin);
    const std::size_t needed =
        canonical::storage_bytes(owners, shares, comm.rank(), Dtype::f32) / sizeof(float);
    std::vector<float> storage(needed + 3, -7.0f);
    canonical::reduce_scatter(comm, owners, pointers, shares, Dtype::f32, sums[0].data() + begin,
                              std::as_writable_bytes(std::span(storage)));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      EXPECT_TRUE(conformance::same_bits(sums[i].data(), expected[i].data(), 6'005)) << i;
    }
    EXPECT_TRUE(std::all_of(storage.begin(), storage.begin() + 5, [](float x) { return x != -7; }));
    EXPECT_EQ(std::count(storage.begin() + static_cast<std::ptrdiff_t>(needed), storage.end(), -7),
              3);
  });
}

TEST(Add, AddsEachElementWhereverTheSumGoes) {
  std::vector<float> left(37), right(37), out(37), wanted(37);
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = 1.0f / static_cast<float>(i + 1);
    right[i] = i % 5 == 0 ? -left[i] : static_cast<float>(i);
    wanted[i] = left[i] + right[i];
  }
  canonical::add(out.data(), left.data(), right.data(), 37, Dtype::f32);
  EXPECT_EQ(out, wanted);
  std::vector<float> over = left;
  canonical::add(over.data(), over.data(), right.data(), 37, Dtype::f32);
  EXPECT_EQ(over, wanted);
  over = right;
  canonical::add(over.data(), left.data(), over.data(), 37, Dtype::f32);
  EXPECT_EQ(over, wanted);
}

TEST(AddInto, AddsEachElement) {
  std::vector<float> left{1, 2, -0.0f};
  const std::vector<float> right{0.5f, -2, -0.0f};
  canonical::add_into(left.data(), right.data(), 3, Dtype::f32);
  EXPECT_EQ(left[0], 1.5f);
  EXPECT_EQ(left[1], 0.0f);
  EXPECT_TRUE(std::signbit(left[2]));
  std::vector<double> wide{1e300};
  canonical::add_into(wide.data(), wide.data(), 1, Dtype::f64);
  EXPECT_EQ(wide[0], 2e300);
}

TEST(CanonicalDeathTest, RefusesLeavesWithoutOneOwnerAndOtherDtypes) {
  ThreadWorld world(1);
  const auto comm = world.communicator(0);
  float value = 1;
  const void* pointers[] = {&value, &value};
  const auto run = [&](const canonical::LeafOwners& owners, std::size_t subtrees) {
    canonical::reduce_scatter(*comm, owners, {pointers, subtrees}, {1}, Dtype::f32, &value);
  };
  EXPECT_DEATH(run({2, {{0}}}, 1), "exactly one owner");
  EXPECT_DEATH(run({2, {{0, 1, 1}}}, 1), "exactly one owner");
  EXPECT_DEATH(run({2, {{0, 1}, {}}}, 1), "2 vs 1");
  EXPECT_DEATH(run({2, {{0, 1}}}, 2), "2 vs 1");
  EXPECT_DEATH(canonical::storage_bytes({2, {{0}}}, {1}, 0, Dtype::f32), "exactly one owner");
  EXPECT_DEATH(canonical::add_into(&value, &value, 1, Dtype::bf16), "f32 or f64");
}

}  // namespace
}  // namespace shardproof

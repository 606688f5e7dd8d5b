// ctest: unit
#include "data/order.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/loader.h"

namespace shardproof {
namespace {

RC_GTEST_PROP(EpochOrder, IsAPermutation, ()) {
  const auto size = *rc::gen::inRange<std::int64_t>(1, 3000);
  auto ids = epoch_order(size, *rc::gen::arbitrary<std::uint64_t>(),
                         *rc::gen::inRange<std::int64_t>(0, 1000));
  RC_ASSERT(static_cast<std::int64_t>(ids.size()) == size);
  std::sort(ids.begin(), ids.end());
  for (std::int64_t i = 0; i < size; ++i) RC_ASSERT(ids[static_cast<std::size_t>(i)] == i);
}

TEST(EpochOrder, IsAFunctionOfSeedAndEpoch) {
  EXPECT_EQ(epoch_order(100, 1, 0), epoch_order(100, 1, 0));
  EXPECT_NE(epoch_order(100, 1, 0), epoch_order(100, 1, 1));
  EXPECT_NE(epoch_order(100, 1, 0), epoch_order(100, 2, 0));
  std::vector<std::int64_t> plain(100);
  std::iota(plain.begin(), plain.end(), 0);
  EXPECT_NE(epoch_order(100, 1, 0), plain);
}

TEST(EpochOrder, SmallSetsReachEveryOrder) {
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 500; ++epoch) orders.insert(epoch_order(4, 7, epoch));
  EXPECT_EQ(orders.size(), 24u);
}

TEST(EpochOrder, IndexesOfAHugeSetAreComputedByThemselves) {
  const std::int64_t size = (std::int64_t{1} << 61) + 7;
  const EpochOrder order(size, 1, 0);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 100; ++i) {
    const std::int64_t id = order.at(size - 1 - i);
    EXPECT_TRUE(id >= 0 && id < size);
    EXPECT_TRUE(seen.insert(id).second);
  }
}

TEST(EpochOrderDeath, IndexesOutsideAreBugs) {
  EXPECT_DEATH(EpochOrder(3, 1, 0).at(3), "index 3 of 3");
  EXPECT_DEATH(EpochOrder(3, 1, 0).at(-1), "index -1 of 3");
  EXPECT_DEATH(EpochOrder(0, 1, 0), "size 0");
  EXPECT_DEATH(EpochOrder(3, 1, -1), "epoch -1");
}

}  // namespace
}  // namespace shardproof

// ctest: comm
#include "harness/cli/show_collectives.h"

#include <gtest/gtest.h>

#include <map>

namespace shardproof {
namespace {

using Numbers = std::vector<std::int32_t>;

std::map<std::string, ShownOperation> shown(int ranks) {
  std::map<std::string, ShownOperation> by_name;
  for (ShownOperation& each : run_collectives(ranks)) {
    const std::string name = each.name;
    EXPECT_FALSE(each.sentence.empty()) << name;
    EXPECT_EQ(each.ranks.size(), static_cast<std::size_t>(ranks)) << name;
    EXPECT_TRUE(by_name.emplace(name, std::move(each)).second) << name;
  }
  return by_name;
}

void expect_after(const ShownOperation& operation, const std::vector<Numbers>& expected) {
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    EXPECT_EQ(operation.ranks[rank].after, expected[rank]) << operation.name << " rank " << rank;
  }
}

TEST(ShowCollectives, WhatFourRanksHold) {
  auto all = shown(4);
  EXPECT_EQ(all.size(), 13u);
  EXPECT_EQ(all["all_reduce"].ranks[2].before, (Numbers{20, 21, 22, 23}));
  const Numbers sum = {60, 64, 68, 72};
  expect_after(all["all_reduce"], {sum, sum, sum, sum});
  expect_after(all["all_reduce max"], {{30, 31, 32, 33}, {30, 31, 32, 33}});
  EXPECT_EQ(all["reduce"].ranks[0].after, sum);
  expect_after(all["reduce_scatter"], {{60}, {64}, {68}, {72}});
  // Element i of rank r is 100 r + i: the sum over ranks is 600 + 4 i.
  expect_after(all["reduce_scatter_v"], {{600}, {604, 608}, {612, 616, 620}, {624, 628, 632, 636}});
  expect_after(all["broadcast"], {{10, 11, 12, 13}, {10, 11, 12, 13}, {10, 11, 12, 13}});
  expect_after(all["all_gather"], {{0, 10, 20, 30}, {0, 10, 20, 30}});
  expect_after(all["all_gather_v"], {{0, 10, 11, 20, 21, 22, 30, 31, 32, 33}});
  expect_after(all["all_to_all"], {{0, 10, 20, 30}, {1, 11, 21, 31}, {2, 12, 22, 32}});
  expect_after(all["all_to_all_v"], {{0, 10, 20, 30}, {1, 1, 11, 11, 21, 21, 31, 31}});
  expect_after(all["send, recv"], {{0}, {0}, {20}, {20}});
  expect_after(all["barrier"], {{0}, {10}, {20}, {30}});
  expect_after(all["split"], {{0, 2}, {1, 3}, {0, 2}, {1, 3}});
}

TEST(ShowCollectives, BytesAreThoseThatTravel) {
  auto all = shown(4);
  // One element of 4 bytes to each of 3 others; a barrier moves nothing.
  EXPECT_EQ(all["all_to_all"].ranks[1].bytes_sent, 12u);
  EXPECT_EQ(all["barrier"].ranks[1].bytes_sent, 0u);
  EXPECT_EQ(all["send, recv"].ranks[0].bytes_sent, 4u);
}

TEST(ShowCollectives, OneRankAndAnOddNumberOfRanks) {
  auto alone = shown(1);
  expect_after(alone["all_reduce"], {{0}});
  expect_after(alone["broadcast"], {{0}});
  auto three = shown(3);
  expect_after(three["all_reduce"], {{30, 33, 36}});
  expect_after(three["send, recv"], {{0}, {0}, {20}});
}

}  // namespace
}  // namespace shardproof

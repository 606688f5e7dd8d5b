// ctest: comm
// Who holds what, in words.
#include "comm/sides.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Sides, RanksAreListedInRuns) {
  EXPECT_EQ(rank_list({2}), "2");
  EXPECT_EQ(rank_list({1, 0}), "0,1");
  EXPECT_EQ(rank_list({3, 0, 1, 2}), "0-3");
  EXPECT_EQ(rank_list({5, 0, 2, 1, 9, 8}), "0-2,5,8,9");
  EXPECT_EQ(ranks_text({4}), "rank 4");
  EXPECT_EQ(ranks_text({4, 6}), "ranks 4,6");
}

TEST(Sides, TheValueOfMostComesFirst) {
  EXPECT_EQ(sides("dtype", {{2, "f64"}, {0, "f32"}, {1, "f32"}, {3, "f32"}}),
            "dtype: f32 on ranks 0,1,3; f64 on rank 2");
  EXPECT_EQ(sides("count", {{0, "1"}, {1, "2"}, {2, "3"}}),
            "count: 1 on rank 0; 2 on rank 1; 3 on rank 2");
  EXPECT_EQ(sides("root", {{0, "1"}, {1, "1"}}), "");
}

}  // namespace
}  // namespace shardproof

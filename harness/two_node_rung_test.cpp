// ctest: unit
// What the cable must have carried. The rung itself is climbed in accept_ladder_test.cpp.
#include "harness/two_node_rung.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Cable, CarriesAtLeastWhatTheFarRankSent) {
  EXPECT_EQ(cable_problem(1000, 1000), "");
  EXPECT_EQ(cable_problem(1500, 1000), "");
}

TEST(Cable, LessWentAnotherWay) {
  EXPECT_EQ(cable_problem(999, 1000),
            "node 1 put 999 bytes on the cable and its rank sent 1000: they went another way");
}

TEST(Cable, ARankThatSentNothingShowsNothing) {
  EXPECT_NE(cable_problem(1000, 0), "");
}

}  // namespace
}  // namespace shardproof

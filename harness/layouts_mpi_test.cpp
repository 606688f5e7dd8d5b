// ctest: invariant timeout=460 processors=2
// The layout law on MPI processes: the chosen rows of the table up to 4 ranks, and one of 8. All of
// them: layouts_nightly_test.cpp.
#include "harness/layouts_testing.h"

namespace shardproof {
namespace {

using testing_support::expect_equal_rows;

TEST(LayoutsMpi, TheChosenRowsPass) {
  const Json rows = expect_equal_rows({"--backend", "mpi", "--steps", "3", "--max-ranks", "4"},
                                      std::chrono::seconds(300));
  EXPECT_GE(rows.size(), 7u);
}

TEST(LayoutsMpi, EightRanksPass) {
  const Json rows = expect_equal_rows({"dp2.tp2.pp2.zero1", "--backend", "mpi", "--steps", "3"},
                                      std::chrono::seconds(140));
  EXPECT_EQ(rows.size(), 1u);
}

}  // namespace
}  // namespace shardproof

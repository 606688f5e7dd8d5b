// ctest: invariant timeout=460 processors=2
// The layout law on MPI processes: the thirteen chosen rows of the table, up to 8 ranks.
#include "harness/layouts_testing.h"

namespace shardproof {
namespace {

TEST(LayoutsMpi, TheChosenRowsPass) {
  const Json rows = testing_support::expect_equal_rows({"--backend", "mpi", "--steps", "3"},
                                                       std::chrono::seconds(440));
  EXPECT_EQ(rows.size(), 14u);
}

}  // namespace
}  // namespace shardproof

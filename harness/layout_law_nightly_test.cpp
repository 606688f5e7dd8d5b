// ctest: invariant timeout=600 processors=2 nightly
// The layout law for data parallelism on MPI processes: ranks 1, 2, 3, 4, 6 with ZeRO-0 and ZeRO-1.
#include "harness/layout_law_testing.h"

namespace shardproof {
namespace {

TEST_F(LayoutLaw, MpiRanks) {
  for (const char* layout : {"dp1", "dp2", "dp3", "dp4", "dp6", "dp1.zero1", "dp2.zero1",
                             "dp3.zero1", "dp4.zero1", "dp6.zero1"}) {
    expect_equal(layout, "mpi");
  }
}

}  // namespace
}  // namespace shardproof

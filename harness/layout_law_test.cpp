// ctest: invariant timeout=300 processors=2
// The layout law for data parallelism: ranks 1, 2, 3, 4, 6 with ZeRO-0 and ZeRO-1 on threads, half
// of them on MPI processes. All of them there: layout_law_nightly_test.cpp.
#include "harness/layout_law_testing.h"

namespace shardproof {
namespace {

TEST_F(LayoutLaw, ThreadRanks) {
  for (const char* layout : {"dp2", "dp3", "dp4", "dp6", "dp1.zero1", "dp2.zero1", "dp3.zero1",
                             "dp4.zero1", "dp6.zero1"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(LayoutLaw, MpiRanks) {
  for (const char* layout : {"dp1", "dp3", "dp2.zero1", "dp4.zero1", "dp6.zero1"}) {
    expect_equal(layout, "mpi");
  }
}

// The law's counterproof: another Case gives other bits, and the check says so.
TEST_F(LayoutLaw, AnotherSeedIsSeen) {
  const TempFolder folder;
  Config config = small_case("dp2.zero1", steps);
  config.training.seed = 2;
  const Verdict verdict = check_layout(*reference_, run_traced(config, "threads", folder));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_TRUE(verdict.difference.has_value());
}

// Context ranks with different numbers of sequence pieces: the tied head is summed over them while
// its weight is gathered again, in one order on all of them. (It was not: a deadlock, with gpipe.)
TEST(LayoutLawOfUnevenPieces, ATiedHeadIsGatheredBeforeItIsSummed) {
  const auto run = [](const std::string& layout) {
    Config config = small_case(layout, 4);
    config.model.layers = 2;
    config.model.sequence = 12;
    config.model.tied = true;
    config.numerics.sequence_pieces = 4;
    config.run.deadline = 20;
    const TempFolder folder;
    return run_traced(config, "threads", folder);
  };
  const Trace alone = run("dp1");
  for (const char* layout : {"cp3.pp2-gpipe.zero3", "cp3.pp2-zb.zero3", "cp3.pp2-gpipe.zero2"}) {
    const Verdict verdict = check_layout(alone, run(layout));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << layout << ": " << verdict.reason;
  }
}

}  // namespace
}  // namespace shardproof

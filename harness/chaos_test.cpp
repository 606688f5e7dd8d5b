// ctest: fault timeout=180 processors=2
// Chaos: one to three drawn faults in a run and in those that recover from it: always a verdict,
// always the same bits in the end. More seeds in chaos_nightly_test.cpp.
#include "harness/chaos_testing.h"

namespace shardproof {
namespace {

TEST(Chaos, AFewSeedsOnEachLayoutEndWithTheSameBits) {
  expect_order("dp2.zero1", 8, 1, 12);
  expect_order("dp2.tp2.zero3", 6, 100, 4);
}

TEST(Chaos, TheSameSeedDrawsTheSameFaults) {
  FaultRunner runner(20);
  const auto points = runner.discover(chaos_case("dp2.zero1", 4));
  EXPECT_EQ(text(draw_faults(points, {}, 5)), text(draw_faults(points, {}, 5)));
  EXPECT_NE(text(draw_faults(points, {}, 5)), text(draw_faults(points, {}, 6)));
}

}  // namespace
}  // namespace shardproof

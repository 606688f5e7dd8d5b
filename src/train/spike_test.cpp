// ctest: unit timeout=30
#include "train/spike.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

SpikeWatch watch(double factor = 2, int window = 4) {
  SpikeWatch out(factor, window);
  const double losses[] = {9, 4, 3, 5, 4};  // 9 has left the window of 4
  for (int step = 0; step < 5; ++step) out.add(step, losses[step]);
  return out;
}

TEST(Spike, OverTheFactorTimesTheMedianOfTheWindow) {
  SpikeWatch of = watch();
  EXPECT_EQ(of.median(), 4);
  EXPECT_EQ(of.look(5, 8), SpikeRuling::none);
  EXPECT_EQ(of.look(5, 8.0000001), SpikeRuling::roll_back);
  EXPECT_EQ(watch(0).look(5, 1e9), SpikeRuling::none);
  EXPECT_EQ(SpikeWatch(2, 4).look(0, 1e9), SpikeRuling::none);  // nothing to compare with
}

TEST(Spike, TheSameAgainIsTheDatasOwn) {
  SpikeWatch of = watch();
  EXPECT_EQ(of.look(5, 20), SpikeRuling::roll_back);
  of.forget_from(3);
  EXPECT_EQ(of.seen(), 2);  // steps 1 and 2
  of.add(3, 5);
  of.add(4, 4);
  EXPECT_EQ(of.look(5, 20), SpikeRuling::accept);
  of.add(5, 20);
  EXPECT_EQ(of.look(6, 20), SpikeRuling::roll_back);  // another step
}

TEST(Spike, OtherSpikesAtOneStepAreGivenUp) {
  SpikeWatch of = watch();
  for (int i = 0; i < SpikeWatch::rollbacks; ++i) {
    EXPECT_EQ(of.look(5, 20 + i), SpikeRuling::roll_back);
  }
  EXPECT_EQ(of.look(5, 30), SpikeRuling::give_up);
}

TEST(Spike, TwoStepsThatSpikeOneAfterTheOtherDoNotSendEachOtherBackForEver) {
  SpikeWatch watch(2, 4);
  watch.add(0, 1);
  EXPECT_EQ(watch.look(1, 5), SpikeRuling::roll_back);
  EXPECT_EQ(watch.look(1, 5), SpikeRuling::accept);
  EXPECT_EQ(watch.look(2, 6), SpikeRuling::roll_back);
  EXPECT_EQ(watch.look(1, 5), SpikeRuling::accept);
  EXPECT_EQ(watch.look(2, 6), SpikeRuling::accept);
}

}  // namespace
}  // namespace shardproof

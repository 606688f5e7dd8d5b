// ctest: unit
#include "data/mixture.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>

namespace shardproof {
namespace {

std::vector<double> any_weights() {
  const auto count = *rc::gen::inRange<std::size_t>(1, 12);
  std::vector<double> weights(count);
  for (double& weight : weights) {
    const int digits = *rc::gen::inRange(0, 1000);
    weight = digits * *rc::gen::element(1.0, 0.001, 1e6, 0.3);
  }
  weights[*rc::gen::inRange<std::size_t>(0, count)] = *rc::gen::element(1.0, 0.1, 700.0);
  return weights;
}

// ceil(log2(sources)).
int levels(int sources) {
  return std::bit_width(static_cast<unsigned>(sources - 1));
}

// |count - share x positions / total|, times total, exactly.
__extension__ using Wide = __int128;
Wide off(const Mixture& mixture, int source, std::int64_t count, std::int64_t positions) {
  const Wide difference = Wide{count} * static_cast<std::int64_t>(mixture.total()) -
                          Wide{positions} * static_cast<std::int64_t>(mixture.share(source));
  return difference < 0 ? -difference : difference;
}

bool within_bound(const Mixture& mixture, int source, std::int64_t count, std::int64_t positions) {
  const Wide bound = Wide{levels(mixture.sources())} * static_cast<std::int64_t>(mixture.total());
  const Wide found = off(mixture, source, count, positions);
  return mixture.sources() == 1 ? found == 0 : found < bound;
}

// Walking from 0 and asking at any place are the same, and every prefix has its shares.
RC_GTEST_PROP(Mixture, APositionIsComputedByItselfAndSharesHoldAtEachOne, ()) {
  const Mixture mixture(any_weights(), *rc::gen::arbitrary<std::uint64_t>());
  std::vector<std::int64_t> counts(static_cast<std::size_t>(mixture.sources()));
  for (std::int64_t position = 0; position < 300; ++position) {
    for (int source = 0; source < mixture.sources(); ++source) {
      const std::int64_t count = counts[static_cast<std::size_t>(source)];
      RC_ASSERT(mixture.count(source, position) == count);
      RC_ASSERT(within_bound(mixture, source, count, position));
    }
    const Mixture::Draw draw = mixture.at(position);
    RC_ASSERT(draw.source >= 0 && draw.source < mixture.sources());
    RC_ASSERT(draw.index == counts[static_cast<std::size_t>(draw.source)]++);
    RC_ASSERT(mixture.share(draw.source) > 0u);
  }
}

RC_GTEST_PROP(Mixture, FarPositionsKeepTheShares, ()) {
  const Mixture mixture(any_weights(), *rc::gen::arbitrary<std::uint64_t>());
  const auto position = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 61);
  std::int64_t all = 0;
  for (int source = 0; source < mixture.sources(); ++source) {
    const std::int64_t count = mixture.count(source, position);
    RC_ASSERT(within_bound(mixture, source, count, position));
    all += count;
  }
  RC_ASSERT(all == position);
  const Mixture::Draw draw = mixture.at(position);
  RC_ASSERT(mixture.count(draw.source, position) == draw.index);
  RC_ASSERT(mixture.count(draw.source, position + 1) == draw.index + 1);
}

TEST(Mixture, SharesAreTheWeightsToOneIn32Bits) {
  const Mixture mixture({7, 3, 0}, 1);
  EXPECT_EQ(mixture.share(0), 3006477107u);  // round(0.7 x 2^32)
  EXPECT_EQ(mixture.share(1), 1288490189u);
  EXPECT_EQ(mixture.share(2), 0u);
  EXPECT_EQ(mixture.total(), std::uint64_t{1} << 32);
  const Mixture tiny({1e-300, 1e9}, 1);
  EXPECT_EQ(tiny.share(0), 1u) << "a weight above 0 is drawn";
}

TEST(Mixture, TheWholeOrderIsWrittenOutForOneSeed) {
  const Mixture mixture({2, 1, 1}, 5);
  std::string order;
  for (int position = 0; position < 16; ++position) order += "abc"[mixture.at(position).source];
  EXPECT_EQ(order, "bacabacabacabaca");
}

TEST(Mixture, TheSeedMovesTheOrderAndNotTheShares) {
  const auto order = [](std::uint64_t seed) {
    const Mixture mixture({5, 3, 2, 7}, seed);
    std::string text;
    for (int position = 0; position < 64; ++position) text += "abcd"[mixture.at(position).source];
    return text;
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
}

TEST(MixtureDeath, WeightsThatMeanNothingAreBugs) {
  EXPECT_DEATH(Mixture({}, 1), "0 weights");
  EXPECT_DEATH(Mixture({0, 0}, 1), "weights of 0");
  EXPECT_DEATH(Mixture({1, -1}, 1), "weight -1");
  EXPECT_DEATH(Mixture({1}, 1).at(-1), "position -1");
  EXPECT_DEATH(Mixture({1}, 1).count(1, 0), "source 1 of 1");
}

}  // namespace
}  // namespace shardproof

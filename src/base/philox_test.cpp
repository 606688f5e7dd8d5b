// ctest: unit
#include "base/philox.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <vector>

namespace shardproof {
namespace {

using Words4 = std::array<std::uint32_t, 4>;

// The vectors published with Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words4{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox4x32({ones, ones, ones, ones}, {ones, ones}),
            (Words4{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words4{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// The counter layout is part of every Case's meaning.
TEST(Random, BitsAreTheWordsOfTheDocumentedCounter) {
  const std::uint64_t seed = 0x123456789abcdef0;
  const Random random(seed, Purpose::dropout, 77, 9);
  for (const std::uint64_t index : {0ull, 1ull, 6ull, 4095ull, 1ull << 40}) {
    const std::uint64_t block = index / 4;
    const Words4 words = philox4x32({static_cast<std::uint32_t>(block),
                                     static_cast<std::uint32_t>(block >> 32) | 2u << 24, 77, 9},
                                    {0x9abcdef0, 0x12345678});
    EXPECT_EQ(random.bits(index), words[index % 4]) << index;
    EXPECT_EQ(random.uniform(index), words[index % 4] / 4294967296.0) << index;
  }
}

TEST(Random, EveryPartOfTheKeyMatters) {
  std::set<std::uint32_t> seen;
  int drawn = 0;
  for (const std::uint64_t seed : {1ull, 2ull, 1ull << 32}) {
    for (const Purpose purpose : {Purpose::initial_weight, Purpose::dropout, Purpose::test}) {
      for (const std::uint32_t stream : {0u, 1u}) {
        for (const std::uint32_t step : {0u, 1u}) {
          for (const std::uint64_t index : {0ull, 1ull, 4ull}) {
            seen.insert(Random(seed, purpose, stream, step).bits(index));
            ++drawn;
          }
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);  // 108 draws of 32 bits: a chance collision has odds 1.4e-6
}

TEST(Random, UniformIsInRangeAndFlat) {
  const Random random(5, Purpose::test);
  constexpr int draws = 100000;
  constexpr int bins = 10;
  std::vector<int> counts(bins, 0);
  for (int i = 0; i < draws; ++i) {
    const double value = random.uniform(i);
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++counts[static_cast<int>(value * bins)];
  }
  // Six standard deviations of a binomial count: sqrt(n p (1 - p)) = 95.
  for (const int count : counts) EXPECT_NEAR(count, draws / bins, 570);
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  const Random random(6, Purpose::test);
  constexpr int draws = 200000;
  double sum = 0;
  double squares = 0;
  double fourths = 0;
  double neighbours = 0;
  for (int i = 0; i < draws; ++i) {
    const double value = random.normal(i);
    ASSERT_TRUE(std::isfinite(value)) << i;
    sum += value;
    squares += value * value;
    fourths += value * value * value * value;
    if (i % 2 == 1) neighbours += value * random.normal(i - 1);
  }
  // Bounds of six standard errors: 1, sqrt(2), sqrt(96) over sqrt(n), and 1 over sqrt(n / 2).
  EXPECT_NEAR(sum / draws, 0.0, 6 * 0.00224);
  EXPECT_NEAR(squares / draws, 1.0, 6 * 0.00317);
  EXPECT_NEAR(fourths / draws, 3.0, 6 * 0.0220);
  EXPECT_NEAR(neighbours / (draws / 2), 0.0, 6 * 0.00317);
}

TEST(Random, NormalPairLiesOnTheCircleOfItsRadius) {
  const Random random(7, Purpose::test, 3);
  for (std::uint64_t pair = 0; pair < 1000; ++pair) {
    const Words4 words = philox4x32({static_cast<std::uint32_t>(pair), 6u << 24, 3, 0}, {7, 0});
    const std::uint64_t draw = (std::uint64_t{words[1]} << 32 | words[0]) >> 11;
    const double radius_squared = -2.0 * std::log((static_cast<double>(draw) + 1) / 0x1p53);
    const double x = random.normal(2 * pair);
    const double y = random.normal(2 * pair + 1);
    // Both coordinates are rounded to fp32: 2^-24 relative, twice in the square.
    EXPECT_NEAR(x * x + y * y, radius_squared, radius_squared * 0x1p-22) << pair;
  }
}

RC_GTEST_PROP(Random, BelowStaysBelow, ()) {
  const auto word = rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
  const std::uint64_t bound = *word >> *rc::gen::inRange(0, 63) | 1;
  const std::uint64_t index = *word >> 7;
  const Random random(*word, Purpose::sample_order);
  RC_ASSERT(random.below(bound, index) < bound);
  RC_ASSERT(random.below(1, index) == 0u);
  RC_ASSERT(random.below(bound, index) == random.below(bound, index));
}

TEST(Random, BelowReachesEveryValue) {
  const Random random(8, Purpose::test);
  std::vector<int> counts(7, 0);
  for (int i = 0; i < 70000; ++i) ++counts[random.below(7, i)];
  for (const int count : counts) EXPECT_NEAR(count, 10000, 6 * 93);  // sqrt(n p (1 - p)) = 93
}

TEST(RandomDeathTest, PreconditionsAreChecked) {
  const Random random(1, Purpose::test);
  EXPECT_DEATH(random.below(0, 0), "bound 0");
  EXPECT_DEATH(random.bits(1ull << 60), "block_index");
  EXPECT_DEATH(random.normal(1ull << 57), "block_index");
}

// FNV-1a, 32 bits: the offset basis and the published values of "a" and "foobar".
TEST(StreamId, IsFnv1a) {
  EXPECT_EQ(stream_id(""), 0x811c9dc5u);
  EXPECT_EQ(stream_id("a"), 0xe40c292cu);
  EXPECT_EQ(stream_id("foobar"), 0xbf9cf968u);
  EXPECT_NE(stream_id("blocks.0.mlp"), stream_id("blocks.1.mlp"));
}

}  // namespace
}  // namespace shardproof

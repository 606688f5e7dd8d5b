// ctest: unit
// References: Shewchuk's expansions (another algorithm, exact while nothing overflows) with the
// last rounding done by hand, and 128-bit integers for values on a common grid.
#include "base/exact_sum.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/philox.h"

namespace shardproof {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double largest = std::numeric_limits<double>::max();
constexpr double tiniest = std::numeric_limits<double>::denorm_min();

std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

double exact(const std::vector<double>& values) {
  ExactSum sum;
  for (const double value : values) sum.add(value);
  return sum.value();
}

// Non-overlapping partial sums, smallest first (Shewchuk 1997), rounded once, half to even.
double shewchuk(const std::vector<double>& values) {
  std::vector<double> partials;
  for (double x : values) {
    std::size_t kept = 0;
    for (double y : partials) {
      if (std::abs(x) < std::abs(y)) std::swap(x, y);
      const double high = x + y;
      const double low = y - (high - x);
      if (low != 0) partials[kept++] = low;
      x = high;
    }
    partials.resize(kept);
    partials.push_back(x);
  }
  double high = 0;
  double low = 0;
  while (!partials.empty() && low == 0) {
    const double x = high;
    const double y = partials.back();
    partials.pop_back();
    high = x + y;
    low = y - (high - x);
  }
  // A tie was rounded to even, but what lies below decides it.
  if (!partials.empty() && (low < 0) == (partials.back() < 0) && low != 0) {
    const double twice = 2 * low;
    const double moved = high + twice;
    if (twice == moved - high) high = moved;
  }
  return high;
}

// Finite doubles over a range of exponents, so that sums cancel, round and tie often.
rc::Gen<double> doubles(int lowest_exponent, int highest_exponent) {
  const auto parts =
      rc::gen::tuple(rc::gen::arbitrary<std::uint64_t>(),
                     rc::gen::inRange(lowest_exponent, highest_exponent), rc::gen::inRange(1, 54));
  return rc::gen::map(
      rc::gen::resize(rc::kNominalSize, parts),  // else early cases hold little but zeros
      [](const std::tuple<std::uint64_t, int, int>& drawn) {
        const auto& [word, exponent, width] = drawn;
        const double mantissa = static_cast<double>(word >> (64 - width));
        return std::ldexp(word % 2 == 0 ? mantissa : -mantissa, exponent);
      });
}

RC_GTEST_PROP(ExactSum, EqualsShewchukOnNearExponents, ()) {
  const auto values = *rc::gen::container<std::vector<double>>(doubles(-60, 10));
  RC_ASSERT(bits(exact(values)) == bits(shewchuk(values)));
}

RC_GTEST_PROP(ExactSum, EqualsShewchukOnAllExponents, ()) {
  const auto values = *rc::gen::container<std::vector<double>>(doubles(-1074, 940));
  RC_ASSERT(bits(exact(values)) == bits(shewchuk(values)));
}

RC_GTEST_PROP(ExactSum, EqualsShewchukAmongSubnormals, ()) {
  const auto values = *rc::gen::container<std::vector<double>>(doubles(-1120, -1010));
  RC_ASSERT(bits(exact(values)) == bits(shewchuk(values)));
}

RC_GTEST_PROP(ExactSum, EqualsIntegersOnAGrid, ()) {
  __extension__ using Wide = __int128;
  const auto values = *rc::gen::container<std::vector<double>>(doubles(-20, 40));
  Wide sum = 0;
  for (const double value : values) sum += static_cast<Wide>(std::ldexp(value, 20));
  RC_ASSERT(bits(exact(values)) == bits(std::ldexp(static_cast<double>(sum), -20)));
}

RC_GTEST_PROP(ExactSum, OrderAndSplitChangeNothing, ()) {
  auto values = *rc::gen::container<std::vector<double>>(doubles(-1074, 950));
  const double expected = exact(values);
  const auto shuffle = *rc::gen::arbitrary<std::uint64_t>();
  const Random random(shuffle, Purpose::test);
  for (std::size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(i, i)]);
  }
  RC_ASSERT(bits(exact(values)) == bits(expected));

  const int ranks = *rc::gen::inRange(1, 6);
  std::vector<ExactSum> shares(ranks);
  for (std::size_t i = 0; i < values.size(); ++i) {
    shares[random.below(ranks, 1000000 + i)].add(values[i]);
  }
  ExactSum merged;
  ExactSum by_limb;  // what an int64 all-reduce does
  for (const ExactSum& share : shares) {
    merged.merge(share);
    for (std::size_t i = 0; i < ExactSum::limbs; ++i) by_limb.raw()[i] += share.raw()[i];
  }
  RC_ASSERT(bits(merged.value()) == bits(expected));
  RC_ASSERT(bits(by_limb.value()) == bits(expected));
}

RC_GTEST_PROP(ExactSum, OneValueComesBack, ()) {
  const double value = std::bit_cast<double>(
      *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>()));
  RC_PRE(!std::isnan(value));
  RC_ASSERT(bits(exact({value})) == bits(value == 0 ? 0.0 : value));
  RC_ASSERT(std::isinf(value) || bits(exact({value, 1.0, -value, -1.0})) == bits(0.0));
}

TEST(ExactSum, EmptyAndZeroSumsArePositiveZero) {
  EXPECT_EQ(bits(ExactSum().value()), bits(0.0));
  EXPECT_EQ(bits(exact({-0.0})), bits(0.0));
  EXPECT_EQ(bits(exact({1e300, -1e300})), bits(0.0));
}

TEST(ExactSum, CancellationLosesNothing) {
  EXPECT_EQ(exact({1e308, 1e-308, -1e308}), 1e-308);
  EXPECT_EQ(exact({largest, tiniest, -largest}), tiniest);
  EXPECT_EQ(exact({1.0, 0x1p-60, -1.0}), 0x1p-60);
}

TEST(ExactSum, TiesGoToEvenAndTheLowestBitBreaksThem) {
  EXPECT_EQ(exact({1.0, 0x1p-53}), 1.0);
  EXPECT_EQ(exact({1.0 + 0x1p-52, 0x1p-53}), 1.0 + 0x1p-51);
  EXPECT_EQ(exact({1.0, 0x1p-53, tiniest}), 1.0 + 0x1p-52);
  EXPECT_EQ(exact({-1.0, -0x1p-53, -tiniest}), -1.0 - 0x1p-52);
  EXPECT_EQ(exact({1.0 + 0x1p-52, 0x1p-53, -tiniest}), 1.0 + 0x1p-52);
  // A carry through all 53 bits.
  EXPECT_EQ(exact({2.0 - 0x1p-52, 0x1p-53}), 2.0);
}

TEST(ExactSum, SubnormalsAndTheSmallestNormal) {
  constexpr double normal = std::numeric_limits<double>::min();
  EXPECT_EQ(exact({normal, -tiniest}), std::nextafter(normal, 0.0));
  EXPECT_EQ(exact({tiniest, tiniest}), 2 * tiniest);
  EXPECT_EQ(exact(std::vector<double>(1000, -tiniest)), -1000 * tiniest);
}

TEST(ExactSum, OverflowsOnlyWhereTheExactSumDoes) {
  EXPECT_EQ(exact({largest, largest, -largest}), largest);
  EXPECT_EQ(exact({largest, largest}), infinity);
  EXPECT_EQ(exact({-largest, -largest}), -infinity);
  // Half an ulp above the largest double is a tie, and rounds up; less than that does not.
  EXPECT_EQ(exact({largest, 0x1p970}), infinity);
  EXPECT_EQ(exact({largest, 0x1p970, -tiniest}), largest);
}

TEST(ExactSum, NanAndInfinitiesAsInIeeeAddition) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(exact({1.0, nan, infinity})));
  EXPECT_TRUE(std::isnan(exact({infinity, -infinity})));
  EXPECT_EQ(exact({infinity, 1.0, infinity}), infinity);
  EXPECT_EQ(exact({-largest, -infinity}), -infinity);
  ExactSum up;
  ExactSum down;
  up.add(infinity);
  down.add(-infinity);
  up.merge(down);
  EXPECT_TRUE(std::isnan(up.value()));
}

TEST(ExactSum, ManyAdditionsOfFullLimbs) {
  const double value = std::ldexp(0x1p53 - 1, 11);  // every bit set, across three limbs
  ExactSum sum;
  constexpr int count = 1 << 20;
  for (int i = 0; i < count; ++i) sum.add(value);
  EXPECT_EQ(bits(sum.value()), bits(value * count));
  for (int i = 0; i < 10; ++i) {  // 2^30 additions in all
    const ExactSum copy = sum;
    sum.merge(copy);
  }
  EXPECT_EQ(bits(sum.value()), bits(value * 0x1p30));
  ExactSum negative;
  negative.add(-value * 0x1p30);
  sum.merge(negative);
  EXPECT_EQ(bits(sum.value()), bits(0.0));
}

}  // namespace
}  // namespace shardproof

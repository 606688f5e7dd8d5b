// exact_sum: doubles taken apart into limbs, and one rounding at the end, by hand.
#include "base/exact_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace shardproof {
namespace {

constexpr int limb_bits = 32;
constexpr std::uint64_t limb_mask = 0xffffffff;
constexpr int unit_exponent = -1074;  // bit 0 of limb 0 is the smallest subnormal
constexpr int mantissa_bits = 53;
constexpr int special_exponent = 0x7ff;

// Positions of the three counters behind the value.
constexpr std::size_t positive_infinities = ExactSum::value_limbs;
constexpr std::size_t negative_infinities = ExactSum::value_limbs + 1;
constexpr std::size_t nans = ExactSum::value_limbs + 2;

using Magnitude = std::array<std::uint64_t, ExactSum::value_limbs>;  // 32 bits in each

// Carries through two's complement limbs and takes the absolute value. True when negative.
bool normalise(std::span<const std::int64_t> limbs, Magnitude& out) {
  std::int64_t carry = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t sum = limbs[i] + carry;
    out[i] = static_cast<std::uint64_t>(sum) & limb_mask;
    carry = sum >> limb_bits;
  }
  SP_CHECK(carry == 0 || carry == -1, "more additions than the limbs can hold");
  if (carry == 0) return false;
  std::uint64_t borrow = 1;
  for (std::uint64_t& limb : out) {
    limb = (limb ^ limb_mask) + borrow;
    borrow = limb >> limb_bits;
    limb &= limb_mask;
  }
  return true;
}

// `count` <= 64 bits from bit `low` upward.
std::uint64_t bits_from(const Magnitude& limbs, int low, int count) {
  std::uint64_t value = 0;
  for (int taken = 0; taken < count;) {
    const int bit = low + taken;
    const int shift = bit % limb_bits;
    value |= limbs[bit / limb_bits] >> shift << taken;
    taken += limb_bits - shift;
  }
  return count == 64 ? value : value & ((std::uint64_t{1} << count) - 1);
}

bool any_below(const Magnitude& limbs, int bit) {
  const int whole = bit / limb_bits;
  for (int i = 0; i < whole; ++i) {
    if (limbs[i] != 0) return true;
  }
  return (limbs[whole] & ((std::uint64_t{1} << bit % limb_bits) - 1)) != 0;
}

double round_magnitude(const Magnitude& limbs) {
  int top = static_cast<int>(limbs.size()) - 1;
  while (top >= 0 && limbs[top] == 0) --top;
  if (top < 0) return 0.0;
  const int highest = top * limb_bits + std::bit_width(limbs[top]) - 1;
  if (highest < mantissa_bits) {  // subnormals and the first two binades: exact
    return std::ldexp(static_cast<double>(bits_from(limbs, 0, mantissa_bits)), unit_exponent);
  }
  const int low = highest - mantissa_bits + 1;
  std::uint64_t mantissa = bits_from(limbs, low, mantissa_bits);
  const bool half = bits_from(limbs, low - 1, 1) != 0;
  if (half && ((mantissa & 1) != 0 || any_below(limbs, low - 1))) ++mantissa;
  return std::ldexp(static_cast<double>(mantissa), low + unit_exponent);  // beyond range: infinity
}

}  // namespace

void ExactSum::add(double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  const int exponent = static_cast<int>(bits >> 52 & special_exponent);
  const bool negative = bits >> 63 != 0;
  std::uint64_t mantissa = bits & ((std::uint64_t{1} << 52) - 1);
  if (exponent == special_exponent) {
    ++limbs_[mantissa != 0 ? nans : negative ? negative_infinities : positive_infinities];
    return;
  }
  if (exponent != 0) mantissa |= std::uint64_t{1} << 52;
  const int position = std::max(exponent, 1) - 1;  // of the mantissa's lowest bit
  const std::size_t first = position / limb_bits;
  const int shift = position % limb_bits;
  const std::uint64_t low = (mantissa & limb_mask) << shift;
  const std::uint64_t high = (mantissa >> limb_bits << shift) + (low >> limb_bits);
  const std::int64_t sign = negative ? -1 : 1;
  limbs_[first] += sign * static_cast<std::int64_t>(low & limb_mask);
  limbs_[first + 1] += sign * static_cast<std::int64_t>(high & limb_mask);
  limbs_[first + 2] += sign * static_cast<std::int64_t>(high >> limb_bits);
}

void ExactSum::merge(const ExactSum& other) {
  for (std::size_t i = 0; i < limbs; ++i) limbs_[i] += other.limbs_[i];
}

double ExactSum::value() const {
  const bool up = limbs_[positive_infinities] != 0;
  const bool down = limbs_[negative_infinities] != 0;
  if (limbs_[nans] != 0 || (up && down)) return std::numeric_limits<double>::quiet_NaN();
  if (up || down) {
    const double infinity = std::numeric_limits<double>::infinity();
    return up ? infinity : -infinity;
  }
  Magnitude magnitude;
  const bool negative = normalise(std::span(limbs_).first<value_limbs>(), magnitude);
  const double rounded = round_magnitude(magnitude);
  return negative ? -rounded : rounded;
}

}  // namespace shardproof

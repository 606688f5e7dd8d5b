// ctest: unit
#include "base/dtype.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr Dtype all_dtypes[] = {Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16,
                                Dtype::i32, Dtype::i64, Dtype::u8};
constexpr float infinity = std::numeric_limits<float>::infinity();

TEST(Dtype, SizesAndNames) {
  const std::size_t sizes[] = {4, 8, 2, 2, 4, 8, 1};
  const char* names[] = {"F32", "F64", "BF16", "F16", "I32", "I64", "U8"};
  for (std::size_t i = 0; i < std::size(all_dtypes); ++i) {
    EXPECT_EQ(size_of(all_dtypes[i]), sizes[i]);
    EXPECT_EQ(name(all_dtypes[i]), names[i]);
    EXPECT_EQ(dtype_from_name(names[i]), all_dtypes[i]);
  }
}

TEST(Dtype, OtherNamesAreRefused) {
  for (const char* bad : {"", "f32", "F8_E4M3", "F32 ", "float32"}) {
    try {
      dtype_from_name(bad);
      ADD_FAILURE() << "accepted " << bad;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::bad_input);
      EXPECT_NE(error.place().find(bad), std::string::npos);
    }
  }
}

TEST(Dtype, EveryBf16PatternRoundTrips) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float value = bf16_to_float(bits);
    if (std::isnan(value)) {
      EXPECT_EQ(float_to_bf16(value), bits | 0x40);
    } else {
      ASSERT_EQ(float_to_bf16(value), bits);
    }
  }
}

// Value of a float16 pattern by its definition.
double f16_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 0x1f;
  const int mantissa = bits & 0x3ff;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -magnitude : magnitude;
}

TEST(Dtype, EveryF16PatternHasItsValueAndRoundTrips) {
  for (std::uint32_t pattern = 0; pattern < 0x10000; ++pattern) {
    const auto bits = static_cast<std::uint16_t>(pattern);
    const float value = f16_to_float(bits);
    if ((bits & 0x7c00) == 0x7c00) {
      if ((bits & 0x3ff) == 0) {
        EXPECT_EQ(value, bits & 0x8000 ? -infinity : infinity);
        EXPECT_EQ(float_to_f16(value), bits);
      } else {
        EXPECT_TRUE(std::isnan(value));
        EXPECT_EQ(float_to_f16(value), bits | 0x200);
      }
      continue;
    }
    ASSERT_EQ(value, f16_value(bits));
    ASSERT_EQ(std::signbit(value), (bits & 0x8000) != 0);
    ASSERT_EQ(float_to_f16(value), bits);
  }
}

// Between neighbours of a 16-bit format: the nearer one, and the even one from the middle.
template <typename Widen, typename Round>
void check_rounding(std::uint16_t last_finite, Widen widen, Round round) {
  for (std::uint16_t bits = 0; bits < last_finite; ++bits) {
    const float low = widen(bits);
    const float high = widen(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;  // exact: one bit more than the format
    const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
    ASSERT_EQ(round(middle), even) << bits;
    ASSERT_EQ(round(-middle), even | 0x8000) << bits;
    ASSERT_EQ(round(std::nextafter(middle, low)), bits) << bits;
    ASSERT_EQ(round(std::nextafter(middle, high)), bits + 1) << bits;
  }
}

TEST(Dtype, Bf16RoundsToNearestEven) {
  check_rounding(0x7f7f, bf16_to_float, float_to_bf16);
}

TEST(Dtype, F16RoundsToNearestEven) {
  check_rounding(0x7bff, f16_to_float, float_to_f16);
}

TEST(Dtype, OverflowGoesToInfinity) {
  EXPECT_EQ(float_to_f16(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_f16(65520.0f), 0x7c00);  // the middle: even is infinity
  EXPECT_EQ(float_to_f16(-1e30f), 0xfc00);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(float_to_bf16(-infinity), 0xff80);
}

TEST(Dtype, UnderflowKeepsTheSign) {
  EXPECT_EQ(float_to_f16(0x1p-25f), 0x0000);  // the middle: even is zero
  EXPECT_EQ(float_to_f16(std::nextafter(0x1p-25f, 1.0f)), 0x0001);
  EXPECT_EQ(float_to_f16(-0x1p-26f), 0x8000);
  EXPECT_EQ(float_to_f16(-0.0f), 0x8000);
  EXPECT_EQ(float_to_bf16(-0.0f), 0x8000);
}

TEST(Dtype, ASignallingNanBecomesQuiet) {
  const float signalling = std::bit_cast<float>(0x7f800001u);
  EXPECT_EQ(float_to_bf16(signalling), 0x7fc0);  // never infinity
  EXPECT_EQ(float_to_f16(signalling), 0x7e00);
}

}  // namespace
}  // namespace shardproof

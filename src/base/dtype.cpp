// dtype: one table of names and sizes, and the 16-bit conversions in integer arithmetic, so that no
// flag or kernel can change their rounding.
#include "base/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<DtypeRow, 7> rows = {{{Dtype::f32, "F32", 4},
                                           {Dtype::f64, "F64", 8},
                                           {Dtype::bf16, "BF16", 2},
                                           {Dtype::f16, "F16", 2},
                                           {Dtype::i32, "I32", 4},
                                           {Dtype::i64, "I64", 8},
                                           {Dtype::u8, "U8", 1}}};

const DtypeRow& row(Dtype dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  SP_CHECK_LT(index, rows.size());
  return rows[index];
}

// value >> shift, rounded to nearest even.
std::uint32_t shift_round(std::uint32_t value, int shift) {
  const std::uint32_t kept = value >> shift;
  const std::uint32_t rest = value & ((1u << shift) - 1);
  const std::uint32_t half = 1u << (shift - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0));
}

}  // namespace

std::size_t size_of(Dtype dtype) {
  return row(dtype).size;
}

std::string_view name(Dtype dtype) {
  return row(dtype).name;
}

Dtype dtype_from_name(std::string_view name) {
  for (const DtypeRow& candidate : rows) {
    if (candidate.name == name) return candidate.dtype;
  }
  throw Error(ErrorKind::bad_input, "dtype \"" + std::string(name.substr(0, 40)) + "\"",
              "expected one of F32, F64, BF16, F16, I32, I64, U8");
}

float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40);
  return static_cast<std::uint16_t>(shift_round(bits, 16));
}

float f16_to_float(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1f;
  const std::uint32_t mantissa = bits & 0x3ff;
  if (exponent == 0) {  // zero or subnormal: mantissa x 2^-24, exact in fp32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  const std::uint32_t wide_exponent = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide_exponent << 23 | mantissa << 13);
}

std::uint16_t float_to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const std::uint32_t magnitude = bits & 0x7fffffff;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (std::isnan(value)) {
    return static_cast<std::uint16_t>(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
  }
  if (exponent >= 16) return sign | 0x7c00;
  if (exponent < -25) return sign;  // below half of the smallest subnormal
  if (exponent < -14) {             // subnormal: a multiple of 2^-24
    const std::uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    return static_cast<std::uint16_t>(sign | shift_round(mantissa, -exponent - 1));
  }
  // A carry out of the mantissa raises the exponent, up to infinity: just what rounding asks for.
  const std::uint32_t rebased = magnitude - (std::uint32_t{127 - 15} << 23);
  return static_cast<std::uint16_t>(sign | shift_round(rebased, 13));
}

}  // namespace shardproof

// dtype: element types that travel, rest in files and appear in traces. Names are those of the
// safetensors format ("F32"). bfloat16 and float16 are carried as their 16-bit patterns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardproof {

enum class Dtype : std::uint8_t { f32, f64, bf16, f16, i32, i64, u8 };

std::size_t size_of(Dtype dtype);
std::string_view name(Dtype dtype);            // "F32", "F64", "BF16", "F16", "I32", "I64", "U8"
Dtype dtype_from_name(std::string_view name);  // Error bad_input for any other text

float bf16_to_float(std::uint16_t bits);
std::uint16_t float_to_bf16(float value);  // round to nearest even; a NaN stays a (quiet) NaN
float f16_to_float(std::uint16_t bits);
std::uint16_t float_to_f16(float value);  // round to nearest even, overflow to infinity

}  // namespace shardproof

// local_reduce: works in tiles that stay in the first-level cache, so that every input is read from
// memory once and the output written once. Built with -O3 (src/CMakeLists.txt): the loops below are
// meant to be vectorised, which changes no bit of an element-wise loop.
#include "comm/local_reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace shardproof {

namespace {

constexpr std::size_t tile = 2048;  // elements: at most 16 KiB of accumulator

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;  // wraps where signed addition would be undefined
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};

struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return (a > b || a != a) ? a : b;
  }
};

struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return (a < b || a != a) ? a : b;
  }
};

struct BitOr {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(a | b);
    } else {
      SP_CHECK(false, "bit_or is for integers");
    }
  }
};

// How an element rests in memory and what it is while being combined.
template <typename T>
struct Plain {
  using Stored = T;
  using Wide = T;
  static Wide widen(Stored value) { return value; }
  static Stored narrow(Wide value) { return value; }
};

struct Bf16 {
  using Stored = std::uint16_t;
  using Wide = float;
  static Wide widen(Stored bits) { return bf16_to_float(bits); }
  static Stored narrow(Wide value) { return float_to_bf16(value); }
};

struct F16 {
  using Stored = std::uint16_t;
  using Wide = float;
  static Wide widen(Stored bits) { return f16_to_float(bits); }
  static Stored narrow(Wide value) { return float_to_f16(value); }
};

template <typename Type, typename Op>
void combine(std::span<const void* const> inputs, void* out, std::size_t count) {
  using Stored = typename Type::Stored;
  using Wide = typename Type::Wide;
  alignas(64) Wide sums[tile];
  auto* to = static_cast<Stored*>(out);
  for (std::size_t begin = 0; begin < count; begin += tile) {
    const std::size_t n = std::min(tile, count - begin);
    const Stored* first = static_cast<const Stored*>(inputs[0]) + begin;
    for (std::size_t i = 0; i < n; ++i) sums[i] = Type::widen(first[i]);
    for (const void* input : inputs.subspan(1)) {
      const Stored* next = static_cast<const Stored*>(input) + begin;
      for (std::size_t i = 0; i < n; ++i) sums[i] = Op::apply(sums[i], Type::widen(next[i]));
    }
    for (std::size_t i = 0; i < n; ++i) to[begin + i] = Type::narrow(sums[i]);
  }
}

template <typename Op>
void combine_as(std::span<const void* const> inputs, void* out, std::size_t count, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return combine<Plain<float>, Op>(inputs, out, count);
    case Dtype::f64:
      return combine<Plain<double>, Op>(inputs, out, count);
    case Dtype::bf16:
      return combine<Bf16, Op>(inputs, out, count);
    case Dtype::f16:
      return combine<F16, Op>(inputs, out, count);
    case Dtype::i32:
      return combine<Plain<std::int32_t>, Op>(inputs, out, count);
    case Dtype::i64:
      return combine<Plain<std::int64_t>, Op>(inputs, out, count);
    case Dtype::u8:
      return combine<Plain<std::uint8_t>, Op>(inputs, out, count);
  }
  SP_CHECK(false, "no such dtype");
}

}  // namespace

void local_reduce(std::span<const void* const> inputs, void* out, std::size_t count, Dtype dtype,
                  ReduceOp op) {
  SP_CHECK(!inputs.empty(), "nothing to combine");
  if (count == 0) return;
  if (inputs.size() == 1) {
    if (out != inputs[0]) std::memcpy(out, inputs[0], count * size_of(dtype));
    return;
  }
  switch (op) {
    case ReduceOp::sum:
      return combine_as<Sum>(inputs, out, count, dtype);
    case ReduceOp::max:
      return combine_as<Max>(inputs, out, count, dtype);
    case ReduceOp::min:
      return combine_as<Min>(inputs, out, count, dtype);
    case ReduceOp::bit_or:
      return combine_as<BitOr>(inputs, out, count, dtype);
  }
  SP_CHECK(false, "no such reduce op");
}

}  // namespace shardproof

// ctest: unit
// Element-wise reductions against the definition, element by element.
#include "comm/local_reduce.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace shardproof {
namespace {

template <typename T>
std::vector<T> reduce_all(const std::vector<std::vector<T>>& inputs, Dtype dtype, ReduceOp op) {
  std::vector<const void*> pointers;
  for (const auto& input : inputs) pointers.push_back(input.data());
  std::vector<T> out(inputs[0].size());
  local_reduce(pointers, out.data(), out.size(), dtype, op);
  return out;
}

// Any floats, in the order given: (a + b) + c, the bits of plain additions.
RC_GTEST_PROP(LocalReduce, AddsFloatsInTheGivenOrder, (std::vector<std::vector<float>> inputs)) {
  RC_PRE(!inputs.empty());
  for (auto& input : inputs) input.resize(inputs[0].size());
  std::vector<float> wanted = inputs[0];
  for (std::size_t k = 1; k < inputs.size(); ++k) {
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] + inputs[k][i];
  }
  const auto got = reduce_all(inputs, Dtype::f32, ReduceOp::sum);
  RC_ASSERT(wanted.empty() ||
            std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(float)) == 0);
}

RC_GTEST_PROP(LocalReduce, IntegersWrapAndKeepOrder, (std::vector<std::int32_t> a)) {
  std::vector<std::int32_t> b(a.rbegin(), a.rend());
  const auto sum = reduce_all<std::int32_t>({a, b}, Dtype::i32, ReduceOp::sum);
  const auto max = reduce_all<std::int32_t>({a, b}, Dtype::i32, ReduceOp::max);
  const auto min = reduce_all<std::int32_t>({a, b}, Dtype::i32, ReduceOp::min);
  const auto bits = reduce_all<std::int32_t>({a, b}, Dtype::i32, ReduceOp::bit_or);
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::int64_t exact = std::int64_t{a[i]} + b[i];
    RC_ASSERT(sum[i] == static_cast<std::int32_t>(static_cast<std::uint32_t>(exact)));
    RC_ASSERT(max[i] == std::max(a[i], b[i]));
    RC_ASSERT(min[i] == std::min(a[i], b[i]));
    RC_ASSERT(bits[i] == (a[i] | b[i]));
  }
}

// More than one tile, and no multiple of one.
TEST(LocalReduce, CoversEveryTile) {
  const std::size_t count = 2 * 2048 + 17;
  std::vector<std::vector<std::int64_t>> inputs(3, std::vector<std::int64_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t k = 0; k < 3; ++k) inputs[k][i] = static_cast<std::int64_t>(i * (k + 1));
  }
  const auto sum = reduce_all(inputs, Dtype::i64, ReduceOp::sum);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(sum[i], static_cast<std::int64_t>(6 * i));
}

TEST(LocalReduce, OutputMayBeAnInput) {
  std::vector<double> a(5000, 1.5), b(5000, 2.25);
  const std::vector<const void*> inputs{a.data(), b.data()};
  local_reduce(inputs, b.data(), b.size(), Dtype::f64, ReduceOp::sum);
  EXPECT_EQ(b, std::vector<double>(5000, 3.75));
  EXPECT_EQ(a, std::vector<double>(5000, 1.5));
}

// 1 + 2^-8 + 2^-8 is the next bfloat16 after 1 only when nothing is rounded on the way: rounding
// each step would give 1 twice. The same in float16 with 2^-11.
TEST(LocalReduce, SixteenBitFloatsAreRoundedOnce) {
  const std::uint16_t one = float_to_bf16(1.0f), tiny = float_to_bf16(std::ldexp(1.0f, -8));
  const auto bf16 = reduce_all<std::uint16_t>({{one}, {tiny}, {tiny}}, Dtype::bf16, ReduceOp::sum);
  EXPECT_EQ(bf16[0], float_to_bf16(1.0f + std::ldexp(1.0f, -7)));
  const std::uint16_t one16 = float_to_f16(1.0f), tiny16 = float_to_f16(std::ldexp(1.0f, -11));
  const auto f16 =
      reduce_all<std::uint16_t>({{one16}, {tiny16}, {tiny16}}, Dtype::f16, ReduceOp::sum);
  EXPECT_EQ(f16[0], float_to_f16(1.0f + std::ldexp(1.0f, -10)));
}

TEST(LocalReduce, BytesWrap) {
  const auto sum = reduce_all<std::uint8_t>({{200, 1}, {100, 2}}, Dtype::u8, ReduceOp::sum);
  EXPECT_EQ(sum, (std::vector<std::uint8_t>{44, 3}));
}

TEST(LocalReduce, NegativeZerosStay) {
  const auto sum = reduce_all<float>({{-0.0f}, {-0.0f}}, Dtype::f32, ReduceOp::sum);
  EXPECT_TRUE(std::signbit(sum[0]));
}

TEST(LocalReduce, ANaNOnAnyRankIsSeen) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max, ReduceOp::min}) {
    for (const auto& inputs :
         {std::vector<std::vector<float>>{{nan}, {1}, {2}}, {{1}, {nan}, {2}}, {{1}, {2}, {nan}}}) {
      EXPECT_TRUE(std::isnan(reduce_all(inputs, Dtype::f32, op)[0])) << name(op);
    }
  }
}

TEST(LocalReduce, OneInputIsCopied) {
  const auto out = reduce_all<std::int64_t>({{7, -8}}, Dtype::i64, ReduceOp::max);
  EXPECT_EQ(out, (std::vector<std::int64_t>{7, -8}));
}

TEST(LocalReduceDeathTest, RefusesNothingAndBitOrOfFloats) {
  float value = 1;
  EXPECT_DEATH(local_reduce({}, &value, 1, Dtype::f32, ReduceOp::sum), "nothing to combine");
  const std::vector<const void*> inputs{&value, &value};
  EXPECT_DEATH(local_reduce(inputs, &value, 1, Dtype::f32, ReduceOp::bit_or), "integers");
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "trace/tensor_digest.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/digest.h"

namespace shardproof {
namespace {

TensorView view_of(const std::vector<float>& values) {
  TensorView view;
  const auto count = static_cast<std::int64_t>(values.size());
  view.place = {"w", {count}, 0, {{0}, {count}}, false, {}};
  view.data = values.data();
  return view;
}

// The part [lo, hi) of `values`, as a rank that owns that run would show it.
TensorView run_of(const std::vector<float>& values, std::int64_t lo, std::int64_t hi) {
  TensorView view = view_of(values);
  view.place.is_run = true;
  view.place.range = {lo, hi};
  view.data = values.data() + lo;
  return view;
}

std::vector<float> ramp(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i) * 0.37f - 5);
  return values;
}

TEST(DigestTensor, ABoxHasOneDigestOfItsBytes) {
  const auto values = ramp(3000);
  const TensorRecord record = digest_tensor(4, "grad", view_of(values));
  EXPECT_EQ(record.step, 4);
  EXPECT_EQ(record.what, "grad");
  EXPECT_EQ(record.place.name, "w");
  EXPECT_EQ(record.dtype, Dtype::f32);
  EXPECT_TRUE(record.blocks.empty());
  EXPECT_EQ(record.sha256, sha256(values.data(), 12000).hex());
}

TEST(DigestTensor, ARunFromABlockBoundHasOneDigestABlock) {
  const auto values = ramp(3000);
  const TensorRecord record = digest_tensor(0, "param", run_of(values, 1024, 3000));
  EXPECT_TRUE(record.sha256.empty());
  EXPECT_EQ(record.blocks,
            (std::vector<std::string>{sha256(&values[1024], 4096).hex(),
                                      sha256(&values[2048], 4 * (3000 - 2048)).hex()}));
}

TEST(DigestTensor, ARunFromElsewhereHasOneDigest) {
  const auto values = ramp(3000);
  const TensorRecord record = digest_tensor(0, "param", run_of(values, 1023, 3000));
  EXPECT_TRUE(record.blocks.empty());
  EXPECT_EQ(record.sha256, sha256(&values[1023], 4 * (3000 - 1023)).hex());
  EXPECT_EQ(digest_tensor(0, "param", run_of(values, 1024, 1024)).sha256, sha256("").hex());
}

// Shares cut on block bounds say the same as the whole: what makes layouts comparable.
RC_GTEST_PROP(DigestTensor, BlocksDoNotDependOnTheShare, ()) {
  const auto values = ramp(*rc::gen::inRange(1, 6000));
  const auto count = static_cast<std::int64_t>(values.size());
  const auto whole = digest_tensor(0, "param", run_of(values, 0, count)).blocks;
  const auto blocks = static_cast<std::int64_t>(whole.size());
  const std::int64_t cut = *rc::gen::inRange<std::int64_t>(0, blocks) * block_elements;
  std::vector<std::string> joined;
  if (cut > 0) joined = digest_tensor(0, "param", run_of(values, 0, cut)).blocks;
  const auto rest = digest_tensor(0, "param", run_of(values, cut, count)).blocks;
  joined.insert(joined.end(), rest.begin(), rest.end());
  RC_ASSERT(joined == whole);
}

TEST(DigestTensor, OneFlippedBitChangesItsBlockAlone) {
  auto values = ramp(4096);
  const auto before = digest_tensor(0, "param", run_of(values, 0, 4096)).blocks;
  values[2047] = std::nextafter(values[2047], 1e9f);
  const auto after = digest_tensor(0, "param", run_of(values, 0, 4096)).blocks;
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(before[i] == after[i], i != 1) << i;
}

TEST(DigestTensor, TheNormAddsInElementOrder) {
  // 1e16 + 1 + 1 is 1e16 from the left and 1e16 + 2 from the right.
  const double left = digest_tensor(0, "p", view_of({1e8f, 1, 1})).norm;
  const double right = digest_tensor(0, "p", view_of({1, 1, 1e8f})).norm;
  EXPECT_EQ(left, 1e8);
  EXPECT_EQ(right, std::sqrt(1e16 + 2));
  EXPECT_EQ(digest_tensor(0, "p", view_of({3, 4})).norm, 5.0);
  EXPECT_EQ(digest_tensor(0, "p", view_of({})).norm, 0.0);
}

TEST(DigestTensor, ANanNormHasOnePattern) {
  for (const std::uint32_t pattern : {0x7fc00000u, 0xffc00001u, 0x7f800001u}) {
    const double norm = digest_tensor(0, "p", view_of({1, std::bit_cast<float>(pattern), 2})).norm;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(norm), 0x7ff8000000000000u);
  }
  EXPECT_EQ(digest_tensor(0, "p", view_of({-std::numeric_limits<float>::infinity()})).norm,
            std::numeric_limits<double>::infinity());
}

template <typename T>
double norm_as(Dtype dtype, const std::vector<T>& values) {
  TensorView view;
  const auto count = static_cast<std::int64_t>(values.size());
  view.place = {"w", {count}, 0, {{0}, {count}}, false, {}};
  view.dtype = dtype;
  view.data = values.data();
  const TensorRecord record = digest_tensor(0, "param", view);
  EXPECT_EQ(record.sha256, sha256(values.data(), values.size() * sizeof(T)).hex());
  return record.norm;
}

TEST(DigestTensor, EveryDtypeIsReadAsWhatItIs) {
  EXPECT_EQ(norm_as<float>(Dtype::f32, {3, -4}), 5.0);
  EXPECT_EQ(norm_as<double>(Dtype::f64, {3, -4}), 5.0);
  EXPECT_EQ(norm_as<std::uint16_t>(Dtype::bf16, {float_to_bf16(3), float_to_bf16(-4)}), 5.0);
  EXPECT_EQ(norm_as<std::uint16_t>(Dtype::f16, {float_to_f16(3), float_to_f16(-4)}), 5.0);
  EXPECT_EQ(norm_as<std::int32_t>(Dtype::i32, {3, -4}), 5.0);
  EXPECT_EQ(norm_as<std::int64_t>(Dtype::i64, {3, -4}), 5.0);
  EXPECT_EQ(norm_as<std::uint8_t>(Dtype::u8, {3, 4}), 5.0);
}

}  // namespace
}  // namespace shardproof

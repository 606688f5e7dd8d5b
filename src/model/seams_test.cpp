// ctest: unit
// The lone rank's seams: canonical order of sums, absent leaves, maxima, key gradients, masks.
#include "model/seams.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>

#include <ATen/ops/scalar_tensor.h>

#include "base/philox.h"
#include "base/tree.h"
#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

at::Tensor value(float v) {
  at::Tensor t = at::empty({1}, at::TensorOptions(at::kFloat));
  *t.mutable_data_ptr<float>() = v;
  return t;
}

std::uint32_t bits(const at::Tensor& t) {
  return std::bit_cast<std::uint32_t>(t.item<float>());
}

LoneSeams seams_of(const GptShape& shape) {
  return LoneSeams(shape, {}, {}, 5);
}

RC_GTEST_PROP(CanonicalSum, IsTheTree, (std::uint64_t seed)) {
  const int n = *rc::gen::inRange(1, 17);
  const auto present = *rc::gen::container<std::vector<bool>>(
      static_cast<std::size_t>(n), rc::gen::weightedElement<bool>({{3, true}, {1, false}}));
  const Random random(seed, Purpose::test);
  std::vector<at::Tensor> leaves(static_cast<std::size_t>(n));
  std::map<Node, float> parts;
  for (int i = 0; i < n; ++i) {
    if (!present[static_cast<std::size_t>(i)]) continue;
    const float v = random.normal(static_cast<std::uint64_t>(i));
    leaves[static_cast<std::size_t>(i)] = value(v);
    parts[{i, i + 1}] = v;
  }
  const auto expected = tree_sum(parts, 0, n, [](float a, float b) { return a + b; });
  const at::Tensor sum = canonical_sum(leaves);
  RC_ASSERT(sum.defined() == expected.has_value());
  if (expected) RC_ASSERT(bits(sum) == std::bit_cast<std::uint32_t>(*expected));
}

TEST(CanonicalSum, SkipsAbsentLeavesInsteadOfAddingZero) {
  const at::Tensor sum = canonical_sum(std::vector<at::Tensor>{{}, value(-0.0f), {}});
  EXPECT_EQ(bits(sum), std::bit_cast<std::uint32_t>(-0.0f));
}

TEST(CanonicalSumDeathTest, NeedsALeaf) {
  EXPECT_DEATH(canonical_sum({}), "no leaves");
}

TEST(LoneSeams, OwnsEverything) {
  const LoneSeams seams = seams_of({.layers = 3, .tensor_pieces = 4, .sequence_pieces = 2});
  EXPECT_EQ(seams.owned().tensor, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(seams.owned().sequence, (std::vector<int>{0, 1}));
  EXPECT_EQ(seams.owned().residual, (std::vector<int>{0, 1}));
  EXPECT_EQ(seams.owned().first_layer, 0);
  EXPECT_EQ(seams.owned().last_layer, 3);
  EXPECT_FALSE(seams.recompute(0));
}

TEST(LoneSeams, SumsAndMaximaBySequencePiece) {
  LoneSeams seams = seams_of({});
  const auto parts = [] { return Parts{{value(1), value(4)}, {value(-3), value(-5)}}; };
  for (const auto& sums : {seams.tensor_sum(parts(), {}), seams.loss_sum(parts(), {})}) {
    ASSERT_EQ(sums.size(), 2u);
    EXPECT_EQ(sums[0].item<float>(), 5);
    EXPECT_EQ(sums[1].item<float>(), -8);
  }
  const auto maxima = seams.loss_max(parts(), {});
  ASSERT_EQ(maxima.size(), 2u);
  EXPECT_EQ(maxima[0].item<float>(), 4);
  EXPECT_EQ(maxima[1].item<float>(), -3);
}

TEST(LoneSeams, OnePieceIsPassedWithoutACopy) {
  LoneSeams seams = seams_of({.tensor_pieces = 1, .sequence_pieces = 1});
  const at::Tensor only = value(7);
  EXPECT_TRUE(seams.tensor_sum({{only}}, {})[0].is_same(only));
  EXPECT_TRUE(seams.sequence_gather({only}, {})[0].is_same(only));
  EXPECT_TRUE(seams.expert_dispatch(only, {}, {}).is_same(only));
  EXPECT_TRUE(seams.expert_combine(only, {}, {}).is_same(only));
}

TEST(LoneSeams, PassesParametersAndGradientsByPiece) {
  std::vector<at::Tensor> parameters = {value(1), value(2)};
  std::vector<std::string> sunk;
  LoneSeams seams(
      {}, parameters,
      [&](int piece, int sequence, at::Tensor leaf, const Site& site) {
        sunk.push_back(std::to_string(piece) + " " + std::to_string(sequence) + " " +
                       std::to_string(site.micro_batch) + " " + std::to_string(leaf.item<float>()));
      },
      5);
  EXPECT_TRUE(seams.parameter(1, {}).is_same(parameters[1]));
  EXPECT_THROW(seams.parameter(2, {}), std::out_of_range);
  seams.gradient(1, 0, value(0.5f), {.micro_batch = 3});
  EXPECT_EQ(sunk, std::vector<std::string>{"1 0 3 0.500000"});
}

TEST(LoneSeams, KeyGradientsMeetByKeyPiece) {
  LoneSeams seams = seams_of({.sequence_pieces = 4});
  std::vector<KeyValue> keys;
  for (int s = 0; s < 4; ++s) keys.push_back({value(static_cast<float>(s)), value(-1)});
  EXPECT_EQ(seams.exchange_keys(keys, 0, {}).size(), 4u);
  // partial[i][j] = 10 i + j for keys, its negative for values; block (i, j) runs for j <= i.
  std::vector<std::vector<KeyValue>> partial(4, std::vector<KeyValue>(4));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      const auto v = static_cast<float>(10 * i + j);
      partial[i][j] = {value(v), value(-v)};
    }
  }
  const auto sums = seams.return_key_gradients(partial, 0, {});
  const float expected[] = {60, 63, 54, 33};
  ASSERT_EQ(sums.size(), 4u);
  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_EQ(sums[j].key.item<float>(), expected[j]);
    EXPECT_EQ(sums[j].value.item<float>(), -expected[j]);
  }
}

// Element ((sample, position), dim) of the mask does not depend on micro-batch size or piece
// length.
TEST(DropoutMask, IsAFunctionOfTheGlobalIndex) {
  const GptShape one{.sequence_pieces = 1, .dropout = 0.25};
  const GptShape four{.sequence_pieces = 4, .dropout = 0.25};
  LoneSeams whole = seams_of(one);
  LoneSeams cut = seams_of(four);
  const Site site{.what = "mlp.dropout", .layer = 1};
  const at::Tensor all = whole.dropout_mask(random_batch(one, 0, 6, 1), 0, site, at::kFloat);
  EXPECT_EQ(all.sizes(), (std::vector<std::int64_t>{6, 16, 32}));
  for (int m = 0; m < 3; ++m) {
    for (int s = 0; s < 4; ++s) {
      const at::Tensor mask = cut.dropout_mask(random_batch(four, m, 2, 1), s, site, at::kFloat);
      EXPECT_TRUE(same_bits(mask, all.narrow(0, 2 * m, 2).narrow(1, 4 * s, 4).contiguous()));
    }
  }
}

TEST(DropoutMask, DropsTheStatedShareAndScalesTheRest) {
  const GptShape shape{.dropout = 0.25};
  LoneSeams seams = seams_of(shape);
  const MicroBatch batch = random_batch(shape, 0, 64, 1);
  const at::Tensor mask = seams.dropout_mask(batch, 0, {.what = "embed.dropout"}, at::kFloat);
  const float* values = mask.const_data_ptr<float>();
  std::int64_t dropped = 0;
  for (std::int64_t i = 0; i < mask.numel(); ++i) {
    ASSERT_TRUE(values[i] == 0 || values[i] == 1.0f / 0.75f) << values[i];
    dropped += values[i] == 0 ? 1 : 0;
  }
  // Five standard errors of 16,384 draws.
  EXPECT_NEAR(static_cast<double>(dropped) / static_cast<double>(mask.numel()), 0.25, 0.017);
}

TEST(DropoutMask, DiffersBySiteLayerAndStep) {
  const GptShape shape{.dropout = 0.5};
  LoneSeams seams = seams_of(shape);
  const MicroBatch batch = random_batch(shape, 0, 2, 1);
  const auto mask = [&](const Site& site) {
    return seams.dropout_mask(batch, 0, site, at::kFloat);
  };
  const at::Tensor first = mask({.what = "mlp.dropout", .layer = 0});
  EXPECT_TRUE(same_bits(first, mask({.what = "mlp.dropout", .layer = 0})));
  // Recomputing draws the same mask.
  EXPECT_TRUE(same_bits(first, mask({.what = "mlp.dropout", .layer = 0, .pass = Pass::recompute})));
  EXPECT_FALSE(same_bits(first, mask({.what = "mlp.dropout", .layer = 1})));
  EXPECT_FALSE(same_bits(first, mask({.what = "attn.dropout", .layer = 0})));
  seams.set_step(1);
  EXPECT_FALSE(same_bits(first, mask({.what = "mlp.dropout", .layer = 0})));
}

TEST(DropoutMask, IsUndefinedWithoutDropout) {
  LoneSeams seams = seams_of({});
  EXPECT_FALSE(seams.dropout_mask(random_batch({}, 0, 2, 1), 0, {}, at::kFloat).defined());
}

TEST(LoneSeamsDeathTest, HasOneStage) {
  LoneSeams seams = seams_of({});
  EXPECT_DEATH(seams.stage_send(value(1), {.what = "stage"}), "one pipeline stage");
  EXPECT_DEATH(seams.stage_receive({1}, {.what = "stage"}), "one pipeline stage");
  EXPECT_DEATH(seams_of({.tensor_pieces = 3}), "tensor pieces 3 do not divide heads 4");
}

}  // namespace
}  // namespace shardproof

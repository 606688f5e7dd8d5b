// ctest: unit
// Blockwise attention against softmax written out in double, for every cut of the sequence, with
// and without packed documents; forward and backward.
#include "model/attention.h"

#include <gtest/gtest.h>

#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <numeric>

#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr int rows = 2, length = 8, heads = 3, width = 5;
// Sums of at most 8 terms of order one, in float64.
constexpr double bound = 1e-14;

// [rows, length, heads, width]
at::Tensor random_heads(std::uint64_t seed) {
  at::Tensor t = at::empty({rows, length, heads, width}, at::TensorOptions(at::kDouble));
  const Random random(seed, Purpose::test);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.mutable_data_ptr<double>()[i] = random.normal(static_cast<std::uint64_t>(i));
  }
  return t;
}

std::vector<at::Tensor> cut_sequence(const at::Tensor& t, int pieces) {
  std::vector<at::Tensor> cut;
  for (int s = 0; s < pieces; ++s) {
    cut.push_back(t.narrow(1, s * length / pieces, length / pieces).contiguous());
  }
  return cut;
}

at::Tensor join(const std::vector<at::Tensor>& pieces) {
  at::Tensor whole = at::empty({rows, length, heads, width}, pieces[0].options());
  std::int64_t at = 0;
  for (const at::Tensor& piece : pieces) {
    whole.narrow(1, at, piece.size(1)).copy_(piece);
    at += piece.size(1);
  }
  return whole;
}

struct Naive {
  at::Tensor out, dq, dk, dv;
};

std::size_t at_4d(int b, int t, int h, int e) {
  return static_cast<std::size_t>(((b * length + t) * heads + h) * width + e);
}

Naive naive(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& g,
            const std::vector<std::int32_t>& documents) {
  Naive result{at::zeros_like(q), at::zeros_like(q), at::zeros_like(q), at::zeros_like(q)};
  const auto in = [](const at::Tensor& t) { return t.const_data_ptr<double>(); };
  const auto out = [](at::Tensor& t) { return t.mutable_data_ptr<double>(); };
  const double scale = 1 / std::sqrt(double{width});
  for (int b = 0; b < rows; ++b) {
    for (int h = 0; h < heads; ++h) {
      for (int t = 0; t < length; ++t) {
        std::vector<double> p(length), dp(length);
        double total = 0, mean = 0;
        for (int u = 0; u <= t; ++u) {
          if (documents[static_cast<std::size_t>(b * length + u)] !=
              documents[static_cast<std::size_t>(b * length + t)]) {
            continue;
          }
          double score = 0;
          for (int e = 0; e < width; ++e)
            score += in(q)[at_4d(b, t, h, e)] * in(k)[at_4d(b, u, h, e)];
          total += p[static_cast<std::size_t>(u)] = std::exp(score * scale);
        }
        for (std::size_t u = 0; u < length; ++u) {
          p[u] /= total;
          for (int e = 0; e < width; ++e) {
            const std::size_t to = at_4d(b, static_cast<int>(u), h, e);
            out(result.out)[at_4d(b, t, h, e)] += p[u] * in(v)[to];
            dp[u] += in(g)[at_4d(b, t, h, e)] * in(v)[to];
            out(result.dv)[to] += p[u] * in(g)[at_4d(b, t, h, e)];
          }
          mean += p[u] * dp[u];
        }
        for (std::size_t u = 0; u < length; ++u) {
          const double ds = p[u] * (dp[u] - mean) * scale;
          for (int e = 0; e < width; ++e) {
            const std::size_t from = at_4d(b, static_cast<int>(u), h, e);
            out(result.dq)[at_4d(b, t, h, e)] += ds * in(k)[from];
            out(result.dk)[from] += ds * in(q)[at_4d(b, t, h, e)];
          }
        }
      }
    }
  }
  return result;
}

void expect_near(const at::Tensor& a, const at::Tensor& b) {
  ASSERT_EQ(a.sizes(), b.sizes());
  const double difference = a.sub(b).abs().max().item<double>();
  EXPECT_LE(difference, bound);  // false for a NaN
}

void expect_naive(const std::vector<std::int32_t>& documents, bool packed) {
  const at::Tensor q = random_heads(1), k = random_heads(2), v = random_heads(3),
                   g = random_heads(4);
  const Naive expected = naive(q, k, v, g, documents);
  MicroBatch batch = random_batch({.sequence = length}, 0, rows, 1);
  batch.documents = documents;
  for (const int pieces : {1, 2, 4, 8}) {
    SCOPED_TRACE("pieces " + std::to_string(pieces));
    std::vector<int> owned(static_cast<std::size_t>(pieces));
    std::iota(owned.begin(), owned.end(), 0);
    const BlockMasks masks =
        packed ? document_masks(batch, owned, pieces, at::kDouble) : BlockMasks{};
    AttentionSaved saved;
    saved.query = cut_sequence(q, pieces);
    const auto keys = cut_sequence(k, pieces), values = cut_sequence(v, pieces);
    for (std::size_t s = 0; s < keys.size(); ++s) saved.keys.push_back({keys[s], values[s]});
    attention(owned, masks, saved);
    expect_near(join(saved.out), expected.out);
    const auto grads = attention_backward(cut_sequence(g, pieces), owned, masks, saved);
    expect_near(join(grads.query), expected.dq);
    LoneSeams seams({.sequence = length, .sequence_pieces = pieces}, {}, {}, 1);
    std::vector<at::Tensor> dk, dv;
    for (const KeyValue& sum : seams.return_key_gradients(grads.partial, 0, {})) {
      dk.push_back(sum.key);
      dv.push_back(sum.value);
    }
    expect_near(join(dk), expected.dk);
    expect_near(join(dv), expected.dv);
  }
}

TEST(Attention, CausalBlocksAreSoftmax) {
  expect_naive(std::vector<std::int32_t>(rows * length, 0), false);
}

TEST(Attention, DocumentsAreMasked) {
  expect_naive({0, 0, 0, 1, 1, 1, 1, 2, 0, 1, 1, 1, 1, 1, 1, 1}, true);
}

TEST(Attention, OneDocumentInPackedModeIsCausal) {
  expect_naive(std::vector<std::int32_t>(rows * length, 3), true);
}

// A block is a function of its own pieces: a rank that owns piece 1 alone has the same bits.
TEST(Attention, BlocksDoNotDependOnWhatElseIsOwned) {
  AttentionSaved all, one;
  all.query = cut_sequence(random_heads(1), 4);
  const auto keys = cut_sequence(random_heads(2), 4), values = cut_sequence(random_heads(3), 4);
  for (std::size_t s = 0; s < 4; ++s) all.keys.push_back({keys[s], values[s]});
  one.query = {all.query[2]};
  one.keys = all.keys;
  attention({0, 1, 2, 3}, {}, all);
  attention({2}, {}, one);
  EXPECT_TRUE(same_bits(one.out[0], all.out[2]));
  const auto g = cut_sequence(random_heads(4), 4);
  const auto grads_all = attention_backward(g, {0, 1, 2, 3}, {}, all);
  const auto grads_one = attention_backward({g[2]}, {2}, {}, one);
  EXPECT_TRUE(same_bits(grads_one.query[0], grads_all.query[2]));
  for (std::size_t j = 0; j < 3; ++j) {
    EXPECT_TRUE(same_bits(grads_one.partial[0][j].key, grads_all.partial[2][j].key));
    EXPECT_TRUE(same_bits(grads_one.partial[0][j].value, grads_all.partial[2][j].value));
  }
  EXPECT_FALSE(grads_one.partial[0][3].key.defined());
}

TEST(AttentionDeathTest, OperandsEnterContiguous) {
  AttentionSaved saved;
  saved.query = {random_heads(1).transpose(0, 1)};
  saved.keys = {{random_heads(2), random_heads(3)}};
  EXPECT_DEATH(attention({0}, {}, saved), "contiguous");
  MicroBatch batch = random_batch({.sequence = length}, 0, rows, 1);
  EXPECT_DEATH(document_masks(batch, {0}, 1, at::kFloat), "documents.size");
}

}  // namespace
}  // namespace shardproof

// ctest: unit
// Vocabulary-parallel cross entropy against log-softmax written out in double: any cut of the
// vocabulary, ignored targets, extreme logits.
#include "model/loss.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty_like.h>

#include <cmath>

#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::int64_t rows = 6, vocabulary = 13;
// Logits up to 40, sums of 13 terms in float64.
constexpr double bound = 1e-13;

const std::vector<std::int32_t> targets = {0, 12, MicroBatch::ignored, 5, 6, MicroBatch::ignored};

at::Tensor random_logits(double scale) {
  at::Tensor t = at::empty({rows, vocabulary}, at::TensorOptions(at::kDouble));
  const Random random(3, Purpose::test);
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    t.mutable_data_ptr<double>()[i] = scale * random.normal(static_cast<std::uint64_t>(i));
  }
  return t;
}

struct Cut {
  LossSum loss;
  at::Tensor gradient;
};

Cut run(const at::Tensor& logits, int pieces, double seed, Ids ids = targets) {
  LoneSeams seams({.tensor_pieces = 1}, {}, {}, 1);
  Parts parts(1);
  std::vector<std::int64_t> first;
  for (int v = 0; v < pieces; ++v) {
    const std::int64_t lo = share_bound(vocabulary, pieces, v);
    first.push_back(lo);
    parts[0].push_back(
        logits.narrow(1, lo, share_bound(vocabulary, pieces, v + 1) - lo).clone().contiguous());
  }
  LossSaved saved;
  const auto sums = cross_entropy(std::move(parts), first, {ids}, seams, {}, saved);
  Cut cut{sums.at(0), at::empty_like(logits)};
  for (int v = 0; v < pieces; ++v) {
    const auto n = static_cast<std::size_t>(v);
    const at::Tensor part =
        cross_entropy_backward(saved.exponentials[0][n], saved.totals[0], first[n], ids, seed);
    cut.gradient.narrow(1, first[n], part.size(1)).copy_(part);
  }
  return cut;
}

void expect_log_softmax(double scale) {
  const at::Tensor logits = random_logits(scale);
  const double* z = logits.const_data_ptr<double>();
  constexpr double seed = 0.125;
  for (const int pieces : {1, 2, 4, 13}) {
    SCOPED_TRACE("pieces " + std::to_string(pieces));
    const Cut cut = run(logits, pieces, seed);
    EXPECT_EQ(cut.loss.count, 4);
    double loss = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int32_t target = targets[static_cast<std::size_t>(r)];
      double total = 0;
      for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(z[r * vocabulary + i]);
      if (target != MicroBatch::ignored) loss += std::log(total) - z[r * vocabulary + target];
      for (std::int64_t i = 0; i < vocabulary; ++i) {
        const double p = std::exp(z[r * vocabulary + i]) / total;
        const double expected =
            target == MicroBatch::ignored ? 0 : seed * (p - (i == target ? 1 : 0));
        EXPECT_NEAR(cut.gradient.const_data_ptr<double>()[r * vocabulary + i], expected, bound);
      }
    }
    EXPECT_NEAR(cut.loss.sum, loss, bound);
  }
}

TEST(CrossEntropy, IsLogSoftmax) {
  expect_log_softmax(1);
}

TEST(CrossEntropy, IsStableForLargeLogits) {
  expect_log_softmax(20);
}

TEST(CrossEntropy, DoesNotOverflow) {
  const Cut cut = run(random_logits(1e4), 2, 1);
  EXPECT_TRUE(std::isfinite(cut.loss.sum));
  EXPECT_TRUE(std::isfinite(cut.gradient.abs().sum().item<double>()));
}

TEST(CrossEntropy, NoValidTargetIsZeroAndZero) {
  const std::vector<std::int32_t> none(rows, MicroBatch::ignored);
  const Cut cut = run(random_logits(1), 2, 1, none);
  EXPECT_EQ(cut.loss.sum, 0);
  EXPECT_EQ(cut.loss.count, 0);
  EXPECT_EQ(cut.gradient.abs().max().item<double>(), 0);
}

// An ignored target is -1, which must not be taken for a column of a piece that starts later.
TEST(CrossEntropy, IgnoredIsNoColumn) {
  const std::vector<std::int32_t> one = {MicroBatch::ignored, 3,
                                         MicroBatch::ignored, MicroBatch::ignored,
                                         MicroBatch::ignored, MicroBatch::ignored};
  const at::Tensor logits = random_logits(1);
  EXPECT_NEAR(run(logits, 1, 1, one).loss.sum, run(logits, 13, 1, one).loss.sum, bound);
}

TEST(CrossEntropyDeathTest, TargetsFitTheRows) {
  const std::vector<std::int32_t> few = {1, 2};
  EXPECT_DEATH(run(random_logits(1), 1, 1, few), "targets");
}

}  // namespace
}  // namespace shardproof

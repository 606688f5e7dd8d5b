// ctest: unit
// Vocabulary-parallel cross entropy against log-softmax written out in double: any cut of the
// vocabulary, ignored targets, extreme logits.
#include "model/loss.h"

#include <gtest/gtest.h>

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>

#include "model/gpt_testing.h"

namespace shardproof {
namespace {

using namespace testing;

constexpr std::int64_t rows = 6, vocabulary = 13;
// Logits up to 60, sums of 13 terms in float64.
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

Cut run(const at::Tensor& logits, int pieces, double seed, Ids ids = targets, double epsilon = 0) {
  const Smoothing smoothing{epsilon, vocabulary};
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
  const auto sums = cross_entropy(std::move(parts), first, {ids}, smoothing, seams, {}, saved);
  Cut cut{sums.at(0), at::empty_like(logits)};
  for (int v = 0; v < pieces; ++v) {
    const auto n = static_cast<std::size_t>(v);
    const at::Tensor part = cross_entropy_backward(saved.exponentials[0][n], saved.totals[0],
                                                   first[n], ids, smoothing, seed);
    cut.gradient.narrow(1, first[n], part.size(1)).copy_(part);
  }
  return cut;
}

// The loss as its definition has it: (1 - epsilon) x -log p of the target and epsilon x the mean of
// -log p over all entries.
void expect_log_softmax(double scale, double epsilon = 0) {
  const at::Tensor logits = random_logits(scale);
  const double* z = logits.const_data_ptr<double>();
  constexpr double seed = 0.125;
  for (const int pieces : {1, 2, 4, 13}) {
    SCOPED_TRACE("pieces " + std::to_string(pieces));
    const Cut cut = run(logits, pieces, seed, targets, epsilon);
    EXPECT_EQ(cut.loss.count, 4);
    double loss = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int32_t target = targets[static_cast<std::size_t>(r)];
      double total = 0;
      for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(z[r * vocabulary + i]);
      for (std::int64_t i = 0; i < vocabulary; ++i) {
        const double wanted = (i == target ? 1 - epsilon : 0) + epsilon / vocabulary;
        if (target != MicroBatch::ignored) {
          loss += wanted * (std::log(total) - z[r * vocabulary + i]);
        }
        const double p = std::exp(z[r * vocabulary + i]) / total;
        const double expected = target == MicroBatch::ignored ? 0 : seed * (p - wanted);
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

TEST(CrossEntropy, SmoothingSpreadsOverTheWholeVocabulary) {
  for (const double epsilon : {0.1, 0.5, 1.0}) {
    SCOPED_TRACE(epsilon);
    expect_log_softmax(1, epsilon);
    expect_log_softmax(20, epsilon);
  }
}

TEST(CrossEntropy, DoesNotOverflow) {
  for (const double epsilon : {0.0, 0.1}) {
    const Cut cut = run(random_logits(1e4), 2, 1, targets, epsilon);
    EXPECT_TRUE(std::isfinite(cut.loss.sum));
    EXPECT_TRUE(std::isfinite(cut.gradient.abs().sum().item<double>()));
  }
}

// What is exchanged is part of the cost: without smoothing no row of logit sums travels.
TEST(CrossEntropy, SendsWhatItNeeds) {
  class Counting : public LoneSeams {
   public:
    using LoneSeams::LoneSeams;
    std::vector<at::Tensor> loss_sum(Parts parts, const Site& site) override {
      terms = parts[0][0].size(0);
      return LoneSeams::loss_sum(std::move(parts), site);
    }
    std::int64_t terms = 0;
  };
  for (const auto& [epsilon, terms] : {std::pair{0.0, 2}, {0.1, 3}}) {
    Counting seams({.tensor_pieces = 1}, {}, {}, 1);
    LossSaved saved;
    cross_entropy({{random_logits(1)}}, {0}, {targets}, {epsilon, vocabulary}, seams, {}, saved);
    EXPECT_EQ(seams.terms, terms);
  }
}

// +0, whatever the logits: the contents of ignored positions change no bit.
TEST(CrossEntropy, NoValidTargetIsZeroAndZero) {
  const std::vector<std::int32_t> none(rows, MicroBatch::ignored);
  for (const double epsilon : {0.0, 0.5}) {
    const Cut cut = run(random_logits(1), 2, 1, none, epsilon);
    EXPECT_EQ(cut.loss.sum, 0);
    EXPECT_EQ(cut.loss.count, 0);
    EXPECT_TRUE(same_bits(cut.gradient, at::zeros_like(cut.gradient)));
  }
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

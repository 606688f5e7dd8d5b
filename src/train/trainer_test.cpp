// ctest: invariant timeout=300
// The trainer over real parts on thread ranks: a small model, few steps (also under sanitizers).
#include "train/trainer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/temp_folder.h"
#include "checkpoint/storage.h"
#include "parallel/make_plan.h"
#include "parallel/thread_ranks.h"
#include "trace/reader.h"
#include "train/case_testing.h"
#include "train/sections.h"
#include "train/trainer_testing.h"

namespace shardproof {
namespace {

using testing::corpus;
using testing::expect_same_bits;
using testing::Job;
using testing::Ran;
using testing::small;
using testing::train;

// The synthetic corpus with the targets of some samples taken away.
class Muted : public Dataset {
 public:
  Muted(std::shared_ptr<const Dataset> inner, std::set<std::int64_t> muted)
      : inner_(std::move(inner)), muted_(std::move(muted)) {}
  std::int64_t size() const override { return inner_->size(); }
  int vocabulary() const override { return inner_->vocabulary(); }
  bool packed() const override { return inner_->packed(); }
  void sample(std::int64_t id, const SampleView& out) const override {
    inner_->sample(id, out);
    if (!muted_.contains(id)) return;
    std::fill(out.targets.begin(), out.targets.end(), MicroBatch::ignored);
  }
  Digest digest() const override { return inner_->digest(); }
  std::string tokenizer() const override { return inner_->tokenizer(); }

 private:
  std::shared_ptr<const Dataset> inner_;
  std::set<std::int64_t> muted_;
};

TEST(Trainer, ThreeStepsAreTheSameBitsOnOneAndTwoRanks) {
  const Ran one = train(Job(small(1, 0)));
  ASSERT_EQ(one.steps.size(), 3u);
  for (const StepResult& step : one.steps) {
    EXPECT_TRUE(std::isfinite(step.loss));
    EXPECT_GT(step.grad_norm, 0);
    EXPECT_GT(step.tokens, 0);
  }
  EXPECT_NE(one.steps[0].loss, one.steps[1].loss);
  expect_same_bits(train(Job(small(2, 1))), one);
  expect_same_bits(train(Job(small(2, 0))), one);
}

// Every token weighs the same, in whatever micro-batch it lies; the order of sums in float32 is all
// that differs. Means of micro-batch means would be off by percents: valid tokens are uneven.
TEST(Trainer, GradientsDoNotDependOnTheSizeOfAMicroBatch) {
  constexpr double rounding = 1e-5;  // of the value; seen below 1e-6
  const auto first_step = [](int rows) {
    Config config = small(1, 0, 1);
    config.training.micro_batch = rows;
    config.data.ignored = 0.4;
    config.model.dropout = 0.1;
    return train(Job(config)).steps.at(0);
  };
  const StepResult whole = first_step(8);
  for (const int rows : {1, 2, 4}) {
    const StepResult split = first_step(rows);
    EXPECT_NEAR(split.loss, whole.loss, rounding * whole.loss) << rows << " rows";
    EXPECT_NEAR(split.grad_norm, whole.grad_norm, rounding * whole.grad_norm)
        << "grad_norm with " << rows << " rows";
  }
}

TEST(Trainer, FirstLossIsThatOfAnUntrainedModel) {
  const Ran ran = train(Job(small(1, 0, 1)));
  EXPECT_NEAR(ran.steps[0].loss, std::log(32.0), 0.15);
}

TEST(Trainer, AGlobalBatchWithoutAValidTokenIsAnError) {
  Job job(small(2, 1));
  std::set<std::int64_t> all;
  for (std::int64_t id = 0; id < 64; ++id) all.insert(id);
  job.dataset = std::make_shared<Muted>(corpus(job.config), all);
  try {
    train(job);
    FAIL() << "trained without a token";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::numeric);
    EXPECT_EQ(error.place(), "step 0");
    EXPECT_NE(error.detail().find("no valid token"), std::string::npos);
  }
}

TEST(Trainer, ARankWithoutAValidTokenIsOrdinary) {
  // The second half of step 0's global batch: all of rank 1's rows on two ranks.
  const auto order = epoch_order(64, 1, 0);
  const std::set<std::int64_t> muted(order.begin() + 4, order.begin() + 8);
  Job two(small(2, 1));
  two.dataset = std::make_shared<Muted>(corpus(two.config), muted);
  Job one(small(1, 0));
  one.dataset = two.dataset;
  const Ran expected = train(one);
  EXPECT_TRUE(std::isfinite(expected.steps[0].loss));
  EXPECT_LT(expected.steps[0].tokens, 33);  // of 64
  expect_same_bits(train(two), expected);
}

TEST(Trainer, ResumedRunEndsWithTheBitsOfTheUncutRun) {
  for (const int zero : {0, 1}) {
    Job uncut(small(2, zero, 5));
    uncut.storage = memory_storage();
    uncut.save_after = 2;
    const Ran whole = train(uncut);
    Job resumed = uncut;
    resumed.save_after = -1;
    resumed.resume = true;
    Ran rest = train(resumed);
    ASSERT_EQ(rest.steps.size(), 3u);
    EXPECT_EQ(rest.steps.front().step, 2);
    rest.steps.insert(rest.steps.begin(), whole.steps.begin(), whole.steps.begin() + 2);
    expect_same_bits(rest, whole);
  }
}

// Puts a NaN into a parameter as step 1 begins.
class Poison : public Hooks {
 public:
  void phase(std::int64_t step, Phase phase, Plan& plan) override {
    if (step != 1 || phase != Phase::forward) return;
    static_cast<float*>(plan.shards("param", true).front().data)[0] = std::nanf("");
  }
};

TEST(Trainer, ANotANumberEndsTheRunAtItsStep) {
  Poison poison;
  Job job(small(2, 1));
  job.hooks = &poison;
  try {
    train(job);
    FAIL() << "trained on a NaN";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::numeric);
    EXPECT_EQ(error.place(), "step 1");
  }
}

class Phases : public Hooks {
 public:
  void phase(std::int64_t step, Phase phase, Plan&) override {
    seen.push_back(std::to_string(step) + ":" + std::string(name(phase)));
  }
  std::vector<std::string> seen;
};

TEST(Trainer, EntersEachPhaseOnceAStep) {
  Phases phases;
  Job job(small(1, 0, 2));
  job.hooks = &phases;
  job.storage = memory_storage();
  job.save_after = 1;
  train(job);
  const std::vector<std::string> expected{"0:forward",   "0:backward", "0:reduced",  "0:clipped",
                                          "0:optimizer", "0:save",     "1:forward",  "1:backward",
                                          "1:reduced",   "1:clipped",  "1:optimizer"};
  EXPECT_EQ(phases.seen, expected);
}

TEST(Trainer, WritesTheWholeStepIntoTheTrace) {
  const TempFolder folder;
  Job job(small(2, 1, 2));
  job.trace.directory = folder.path();
  job.trace.digest = true;
  const Ran ran = train(job);
  const Trace trace = read_trace(folder.path());
  ASSERT_EQ(trace.ranks.size(), 2u);
  std::set<std::int64_t> samples;
  std::int64_t tokens = 0;
  for (const RankTrace& rank : trace.ranks) {
    EXPECT_EQ(rank.ended, 2);
    ASSERT_EQ(rank.steps.size(), 2u);
    const StepRecord& first = rank.steps[0];
    EXPECT_EQ(first.loss, ran.steps[0].loss);
    EXPECT_EQ(first.grad_norm, ran.steps[0].grad_norm);
    EXPECT_EQ(first.lr, ran.steps[0].lr);
    EXPECT_EQ(first.extra.at("tokens_global"), ran.steps[0].tokens);
    EXPECT_EQ(from_bits_hex(first.extra.at("clip_factor_bits").get<std::string>()),
              std::min(1.0, 1.0 / (first.grad_norm + 1e-6)));
    tokens += first.tokens;
    samples.insert(first.samples.begin(), first.samples.end());

    std::map<std::pair<std::int64_t, std::string>, std::int64_t> elements;
    std::set<std::string> names;
    for (const TensorRecord& tensor : rank.tensors) {
      EXPECT_TRUE(tensor.place.is_run);
      EXPECT_FALSE(tensor.blocks.empty());
      elements[{tensor.step, tensor.what}] += tensor.place.range.size();
      names.insert(tensor.place.name);
    }
    const std::int64_t all = PieceTable(gpt_pieces(shape_of(job.config))).elements();
    const std::int64_t share =
        PieceTable(gpt_pieces(shape_of(job.config))).share(2, rank.rank).size();
    EXPECT_EQ((elements[{-1, "param"}]), all);
    EXPECT_EQ((elements[{0, "param"}]), all);
    EXPECT_EQ((elements[{0, "grad"}]), share);
    EXPECT_EQ((elements[{1, "moment"}]), 3 * share);
    EXPECT_EQ((elements[{-1, "moment"}]), 0);

    int memory = 0;
    for (const Json& line : rank.others) {
      if (line.at("kind") != "memory") continue;
      ++memory;
      EXPECT_EQ(line.at("bytes").at("optimizer"), 12 * share);
      EXPECT_EQ(line.at("bytes").at("optimizer_exact"), 12 * all / 2);
      EXPECT_EQ(line.at("live").at("parameters"), 4 * all);
      EXPECT_EQ(line.at("live").at("optimizer"), 12 * share);
      EXPECT_GT(line.at("peak").at("activations").get<std::int64_t>(), 0);
    }
    EXPECT_EQ(memory, 2);
  }
  EXPECT_EQ(tokens, ran.steps[0].tokens);
  EXPECT_EQ(samples.size(), 8u);
}

}  // namespace
}  // namespace shardproof

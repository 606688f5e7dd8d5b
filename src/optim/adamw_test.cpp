// ctest: unit
// AdamW against an independent loop in double, bit equality however the arena is split, and decay
// by name.
#include "optim/adamw.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"

namespace shardproof {
namespace {

struct State {
  std::vector<float> grad, master, exp_avg, exp_avg_sq;
};

State random_state(std::int64_t count, std::uint64_t seed) {
  const Random random(seed, Purpose::test);
  State state;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i) {
    state.grad.push_back(0.1f * random.normal(4 * i));
    state.master.push_back(random.normal(4 * i + 1));
    state.exp_avg.push_back(0.1f * random.normal(4 * i + 2));
    state.exp_avg_sq.push_back(0.01f * std::abs(random.normal(4 * i + 3)));
  }
  return state;
}

void run(const AdamWConfig& config, const AdamWStep& at, bool decay, std::int64_t lo,
         std::int64_t hi, State& state) {
  adamw(config, at, decay, hi - lo, state.grad.data() + lo, state.master.data() + lo,
        state.exp_avg.data() + lo, state.exp_avg_sq.data() + lo);
}

// The paper's algorithm 2 on one element, in double.
struct Exact {
  double w, m = 0, v = 0;
  void step(const AdamWConfig& c, const AdamWStep& at, bool decay, double grad) {
    const double g = grad * at.clip_factor;
    const double t = static_cast<double>(at.step + 1);
    m = c.beta1 * m + (1 - c.beta1) * g;
    v = c.beta2 * v + (1 - c.beta2) * g * g;
    const double m_hat = m / (1 - std::pow(c.beta1, t));
    const double v_hat = v / (1 - std::pow(c.beta2, t));
    const double decayed = decay ? c.weight_decay * w : 0;
    w -= at.lr * (m_hat / (std::sqrt(v_hat) + c.epsilon) + decayed);
  }
};

// 30 steps from zero moments, |w| up to 4: some 3 roundings a step of at most 1.2e-7 each, which
// add up like a random walk: sqrt(90) x 1.2e-7 = 1.2e-6.
TEST(AdamW, FollowsTheAlgorithmInDouble) {
  const AdamWConfig config;
  constexpr std::int64_t count = 1000;
  for (const bool decay : {true, false}) {
    State state = random_state(count, 1);
    std::fill(state.exp_avg.begin(), state.exp_avg.end(), 0.0f);
    std::fill(state.exp_avg_sq.begin(), state.exp_avg_sq.end(), 0.0f);
    std::vector<Exact> exact;
    for (const float w : state.master) exact.push_back({.w = w});
    for (std::int64_t step = 0; step < 30; ++step) {
      state.grad = random_state(count, 100 + static_cast<std::uint64_t>(step)).grad;
      const AdamWStep at{.lr = 1e-2, .clip_factor = 0.7, .step = step};
      run(config, at, decay, 0, count, state);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        exact[i].step(config, at, decay, state.grad[i]);
      }
    }
    for (std::size_t i = 0; i < exact.size(); ++i) {
      ASSERT_TRUE(std::isfinite(state.master[i]));
      ASSERT_NEAR(state.master[i], exact[i].w, 2e-6) << i;
      ASSERT_NEAR(state.exp_avg[i], exact[i].m, 1e-7) << i;
      ASSERT_NEAR(state.exp_avg_sq[i], exact[i].v, 1e-8) << i;
    }
  }
}

TEST(AdamW, FirstStepMovesByTheRate) {
  State state{{0.5f, -0.25f, 0.0f}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}};
  run({.epsilon = 0x1p-30}, {.lr = 0.125}, false, 0, 2, state);
  // m / (1 - b1) = g and sqrt(v / (1 - b2)) = |g| up to rounding: a step of lr against the sign.
  EXPECT_NEAR(state.master[0], 0.875, 1e-6);
  EXPECT_NEAR(state.master[1], 1.125, 1e-6);
  EXPECT_EQ(state.master[2], 1.0f);  // outside the range
  run({}, {.lr = 0.125}, false, 2, 3, state);
  EXPECT_EQ(state.master[2], 1.0f);  // no gradient, no decay
  run({.weight_decay = 0.5}, {.lr = 0.125}, true, 2, 3, state);
  EXPECT_EQ(state.master[2], 0.9375f);  // decay alone: 1 - lr x decay
}

TEST(AdamW, ZeroRateChangesMomentsOnly) {
  State state = random_state(50, 4);
  const State before = state;
  run({}, {.lr = 0, .step = 3}, true, 0, 50, state);
  EXPECT_EQ(state.master, before.master);
  EXPECT_NE(state.exp_avg, before.exp_avg);
  run({}, {.lr = 1}, true, 0, 0, state);  // an empty range
  EXPECT_EQ(state.master, before.master);
}

RC_GTEST_PROP(AdamW, SplittingTheRangeChangesNoBit, (std::uint64_t seed)) {
  const auto blocks = *rc::gen::inRange<std::int64_t>(1, 5);
  const std::int64_t count = blocks * block_elements + *rc::gen::inRange<std::int64_t>(0, 40);
  const AdamWStep at{.lr = 1e-2, .clip_factor = 0.3, .step = *rc::gen::inRange<std::int64_t>(0, 9)};
  State whole = random_state(count, seed);
  State parts = whole;
  run({}, at, true, 0, count, whole);
  std::int64_t lo = 0;
  for (const std::int64_t b : *rc::gen::container<std::vector<std::int64_t>>(
           rc::gen::inRange<std::int64_t>(0, blocks + 1))) {
    const std::int64_t hi = std::max(lo, b * block_elements);
    run({}, at, true, lo, hi, parts);
    lo = hi;
  }
  run({}, at, true, lo, count, parts);
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  RC_ASSERT(same(whole.master, parts.master));
  RC_ASSERT(same(whole.exp_avg, parts.exp_avg));
  RC_ASSERT(same(whole.exp_avg_sq, parts.exp_avg_sq));
}

TEST(AdamWDeathTest, RefusesNegativeCountsAndSteps) {
  State state = random_state(4, 1);
  EXPECT_DEATH(run({}, {}, true, 4, 0, state), "0 <= count");
  EXPECT_DEATH(run({}, {.step = -1}, true, 0, 4, state), "0 <= at.step");
}

TEST(Decays, IsSetByName) {
  const std::vector<std::string> none = {"*.bias", "*ln*", "pos.weight"};
  EXPECT_TRUE(decays("blocks.0.attn.q.weight", none));
  EXPECT_TRUE(decays("embed.weight", none));
  EXPECT_FALSE(decays("blocks.0.attn.q.bias", none));
  EXPECT_FALSE(decays("blocks.1.ln2.weight", none));
  EXPECT_FALSE(decays("ln_f.weight", none));
  EXPECT_FALSE(decays("pos.weight", none));
  EXPECT_TRUE(decays("pos.weight.more", none));  // the whole name is matched
  EXPECT_TRUE(decays("blocks.0.attn.q.bias", {}));
}

TEST(Decays, PatternsMatchAnyText) {
  const auto matches = [](const char* name, const char* pattern) {
    return !decays(name, {pattern});
  };
  EXPECT_TRUE(matches("anything", "*"));
  EXPECT_TRUE(matches("", "*"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("a", ""));
  EXPECT_TRUE(matches("abcbc", "a*bc"));  // goes back to a later match
  EXPECT_FALSE(matches("abcbd", "a*bc"));
  EXPECT_TRUE(matches("blocks.10.mlp.up.weight", "blocks.*.mlp.*.weight"));
  EXPECT_FALSE(matches("blocks.10.mlp.up.bias", "blocks.*.mlp.*.weight"));
}

}  // namespace
}  // namespace shardproof

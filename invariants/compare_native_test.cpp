// ctest: invariant
// Native runs compared without a float64 side: rounding passes and the output says so; what hides
// in the loss and behind Adam is seen; nothing compared is never equal.
#include "invariants/compare_native.h"

#include <gtest/gtest.h>

#include <cmath>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr float u = 0x1p-24f;

class NativeRuns : public ::testing::Test {
 protected:
  Trace write(const FakeTrainer& fake) {
    return fake.write(folder_.file("trace" + std::to_string(next_++)));
  }
  static FakeTrainer native(int world, const std::string& backend = "threads") {
    FakeTrainer fake;
    fake.world = world;
    fake.run = [=](int, Json& run) {
      run["config"]["numerics"] = Json{{"reduction", "native"}};
      run["config"]["parallel"] = Json{{"bucket_bytes", 4096}};
      run["config"]["run"] = Json{{"layout", "dp" + std::to_string(world)}, {"backend", backend}};
    };
    return fake;
  }
  // The gradients that are written are off by a factor; all else is clean.
  static FakeTrainer scaled(float factor, int world = 2, const std::string& backend = "threads") {
    FakeTrainer fake = native(world, backend);
    fake.tensor = [=](int, std::int64_t, const std::string& what, std::vector<float>& values) {
      if (what != "grad") return;
      for (float& each : values) each *= factor;
    };
    return fake;
  }
  Verdict against_one(const FakeTrainer& fake) {
    return check_layout(write(native(1)), write(fake));
  }

  TempFolder folder_;
  int next_ = 0;
};

TEST_F(NativeRuns, RoundingOnAnotherLayoutPassesAndIsToldSo) {
  const Verdict verdict = against_one(scaled(1 + 4 * u));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  ASSERT_EQ(verdict.notes.size(), 2u);
  EXPECT_NE(verdict.notes[0].find("native on dp1 (threads) against native on dp2 (threads)"),
            std::string::npos)
      << verdict.notes[0];
  EXPECT_NE(verdict.notes[1].find("8 gradients over 4 of 4 steps"), std::string::npos)
      << verdict.notes[1];
}

TEST_F(NativeRuns, OnOneLayoutBitsAreDemandedAndToldSo) {
  const Trace one = write(native(2));
  const Verdict same = check_layout(one, write(native(2)));
  EXPECT_EQ(same.outcome, Outcome::pass) << same.reason;
  EXPECT_NE(same.notes.front().find("bit for bit"), std::string::npos);
  EXPECT_EQ(check_layout(one, write(scaled(1 + 4 * u))).outcome, Outcome::fail);
  // The backend's sums have the same bits on the same backend alone.
  EXPECT_EQ(check_layout(one, write(scaled(1 + 4 * u, 2, "mpi"))).outcome, Outcome::pass);
}

TEST_F(NativeRuns, ALostOneOverKFails) {
  for (const float factor : {2.0f, 0.5f, 0.25f, 1.0001f, -1.0f}) {
    const Verdict verdict = against_one(scaled(factor));
    ASSERT_EQ(verdict.outcome, Outcome::fail) << factor;
    EXPECT_EQ(verdict.difference->phase, "grad");
    EXPECT_GE(verdict.difference->element, 0);
  }
  // In one small tensor alone; 5 elements of 2,405.
  FakeTrainer fake = native(2);
  fake.tensor = [](int, std::int64_t, const std::string& what, std::vector<float>& values) {
    for (std::size_t i = 0; i < 5 && what == "grad"; ++i) values[i] *= 0.5f;
  };
  ASSERT_EQ(against_one(fake).outcome, Outcome::fail);
}

TEST_F(NativeRuns, WithoutBytesALostOneOverKFailsByItsNorm) {
  const auto blind = [](FakeTrainer fake) {
    fake.capture = {};
    fake.share_state = false;
    return fake;
  };
  const Trace one = write(blind(native(1)));
  const Verdict wrong = check_layout(one, write(blind(scaled(2))));
  EXPECT_EQ(wrong.outcome, Outcome::fail);
  EXPECT_EQ(wrong.difference->phase, "grad");
  EXPECT_EQ(check_layout(one, write(blind(scaled(1)))).outcome, Outcome::inconclusive)
      << "equal norms are no equal gradients";
}

TEST_F(NativeRuns, ScalarsSamplesAndWeightsAreJudged) {
  const std::vector<std::pair<std::string, std::function<void(StepRecord&)>>> changes = {
      {"loss", [](StepRecord& r) { r.loss *= 1.001; }},
      {"grad_norm", [](StepRecord& r) { r.grad_norm *= 2; }},
      {"lr", [](StepRecord& r) { r.lr = std::nextafter(r.lr, 9.0); }},
      {"samples", [](StepRecord& r) { r.samples.back() += 1; }},
  };
  for (const auto& [phase, change] : changes) {
    FakeTrainer fake = native(2);
    fake.step = [&](int rank, StepRecord& record) {
      if (rank == 1 && record.step == 0) change(record);
    };
    const Verdict verdict = against_one(fake);
    ASSERT_EQ(verdict.outcome, Outcome::fail) << phase;
    EXPECT_EQ(verdict.difference->phase, phase);
  }
  FakeTrainer other = native(2);
  other.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s == -1 && what == "param") values[0] += 1;
  };
  const Verdict weights = against_one(other);
  ASSERT_EQ(weights.outcome, Outcome::fail);
  EXPECT_EQ(weights.difference->step, -1);
}

// Weights that moved apart: nothing is said of gradients from there on, but the steps are counted.
TEST_F(NativeRuns, LaterStepsStartFromOtherWeights) {
  FakeTrainer fake = native(2);
  fake.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s >= 0 && what == "param") values[0] = std::nextafter(values[0], 9.0f);
    if (s >= 1 && what == "grad") values[0] += 1;
  };
  const Verdict verdict = against_one(fake);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_NE(verdict.notes.back().find("over 1 of 4 steps"), std::string::npos);
  fake.steps = 3;
  EXPECT_EQ(against_one(fake).outcome, Outcome::fail) << "a step is missing";
}

TEST_F(NativeRuns, NothingComparedIsUndecided) {
  FakeTrainer bare = native(2);
  bare.capture = {};
  bare.digest = false;
  EXPECT_EQ(against_one(bare).outcome, Outcome::inconclusive);
  FakeTrainer late = native(2);
  late.capture = {0, 1, 2, 3};  // without the initial weights
  late.digest = false;
  EXPECT_EQ(against_one(late).outcome, Outcome::inconclusive);
}

TEST(NativePair, SaysWhyBitsCannotBeDemanded) {
  EXPECT_FALSE(native_pair().reason.empty());
  EXPECT_GT(native_pair().bound, 0);
}

}  // namespace
}  // namespace shardproof

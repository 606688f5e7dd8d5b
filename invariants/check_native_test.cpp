// ctest: invariant
#include <gtest/gtest.h>

#include <cmath>

#include "invariants/compare_errors.h"
#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr double u = 0x1p-24;

// The traces of a float32 trainer; the reference is off by about one u everywhere, alternating.
class NativeLayout : public ::testing::Test {
 protected:
  Trace write(const FakeTrainer& fake) {
    return fake.write(folder_.file("trace" + std::to_string(next_++)));
  }
  static FakeTrainer off_by(double units, int world = 2) {
    FakeTrainer fake;
    fake.world = world;
    fake.steps = 1;
    fake.tensor = [units](int, std::int64_t, const std::string& what, std::vector<float>& values) {
      if (what != "grad") return;
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] *= static_cast<float>(1 + (i % 2 == 0 ? units : -units) * 2 * u);
      }
    };
    return fake;
  }
  Verdict judge(const FakeTrainer& fake) {
    FakeTrainer one = off_by(0, 1);
    const Trace truth = write(one), reference = write(off_by(2, 1));
    // Three times the same benign run: what matters here is how far it is off.
    return check_native_layout(truth, {&reference, &reference, &reference}, write(fake));
  }
  static FakeTrainer doctored(const std::function<void(int, std::vector<float>&)>& change) {
    FakeTrainer fake;
    fake.steps = 1;
    fake.tensor = [change](int rank, std::int64_t, const std::string& what,
                           std::vector<float>& values) {
      if (what == "grad") change(rank, values);
    };
    return fake;
  }

  TempFolder folder_;
  int next_ = 0;
};

TEST_F(NativeLayout, RoundingOfTheReferencesSizePassesAndTheWorstIsNamed) {
  const Verdict verdict = judge(off_by(4));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  ASSERT_FALSE(verdict.notes.empty());
  EXPECT_TRUE(verdict.notes[0].starts_with("worst ratio ")) << verdict.notes[0];
  EXPECT_NE(verdict.notes[0].find("element"), std::string::npos);
  EXPECT_NE(verdict.notes.back().find("no float64 side"), std::string::npos);
}

TEST_F(NativeLayout, FiveTimesTheReferencesErrorFails) {
  EXPECT_EQ(judge(off_by(12)).outcome, Outcome::fail);
}

// What is computed stays right in all of these: loss, norm, parameters and moments are clean.
TEST_F(NativeLayout, WrongFactorsFailThoughLossAndParametersAreClean) {
  for (const float factor : {0.25f, 2.0f, 0.5f, -1.0f, 1.0001f}) {
    const Verdict verdict = judge(doctored([&](int, std::vector<float>& values) {
      for (float& each : values) each *= factor;
    }));
    ASSERT_EQ(verdict.outcome, Outcome::fail) << factor;
    ASSERT_TRUE(verdict.difference);
    EXPECT_EQ(verdict.difference->phase, "grad");
    EXPECT_GE(verdict.difference->element, 0);
  }
}

TEST_F(NativeLayout, OneElementOfOneRanksCopyFails) {
  FakeTrainer fake = doctored([](int rank, std::vector<float>& values) {
    if (rank == 1) values[5 + 2] += 0.5f;  // behind the 5 elements of w.bias
  });
  fake.share_state = false;
  const Verdict verdict = judge(fake);
  ASSERT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.difference->rank, 1);
  EXPECT_EQ(verdict.difference->element, 2);
}

TEST_F(NativeLayout, ANanAHoleAndAMissingTensorFail) {
  EXPECT_EQ(
      judge(doctored([](int, std::vector<float>& values) { values[3] = std::nanf(""); })).outcome,
      Outcome::fail);
  for (const char* hidden : {"w.weight", "w.bias"}) {
    FakeTrainer fake = off_by(0);
    fake.hide = [&](int, std::int64_t, const std::string& part, const PieceSpec& spec) {
      return part == "grad" && spec.name == hidden;
    };
    EXPECT_EQ(judge(fake).outcome, Outcome::fail) << hidden;
  }
}

TEST_F(NativeLayout, OtherWeightsSamplesOrLossFail) {
  FakeTrainer weights = off_by(0);
  weights.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (what == "param" && s == -1) values[0] = std::nextafter(values[0], 9.0f);
  };
  Verdict verdict = judge(weights);
  ASSERT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.difference->phase, "param");
  FakeTrainer samples = off_by(0);
  samples.step = [](int, StepRecord& record) { record.samples.back() += 1; };
  EXPECT_EQ(judge(samples).difference->phase, "samples");
  FakeTrainer loss = off_by(0);
  loss.step = [](int rank, StepRecord& record) {
    if (rank == 1) record.loss *= 1.00001;
  };
  EXPECT_EQ(judge(loss).difference->phase, "loss");
}

TEST_F(NativeLayout, NothingIsProvenWithoutBytesReferencesOrWeights) {
  const Trace truth = write(off_by(0, 1)), reference = write(off_by(2, 1)), run = write(off_by(0));
  EXPECT_EQ(check_native_layout(truth, {&reference}, run).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_native_layout(Trace{}, {&reference}, run).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_native_layout(truth, {}, Trace{}).outcome, Outcome::inconclusive);
  const std::vector<const Trace*> three(3, &reference);
  for (const char* lost : {"grad", "param"}) {
    Trace blind = run;
    std::erase_if(blind.files, [&](const TensorFileRef& file) { return file.what == lost; });
    for (RankTrace& rank : blind.ranks) rank.tensors.clear();
    EXPECT_EQ(check_native_layout(truth, three, blind).outcome, Outcome::inconclusive) << lost;
  }
}

TEST(ErrorPolicies, SayWhyBitsCannotBeDemanded) {
  for (const Policy* policy : {&native_gradients(), &native_loss()}) {
    EXPECT_FALSE(policy->reason.empty());
    EXPECT_GT(policy->bound, 0);
  }
}

}  // namespace
}  // namespace shardproof

// ctest: invariant
// layout behind the gradients: moments, updates, learning rates and drift of anybody's program.
#include "invariants/subject_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <utility>

#include "invariants/compare_errors.h"
#include "invariants/foreign_trace.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

using Cut = ForeignProgram::Cut;
using Values = std::vector<double>;

ForeignProgram layout() {
  ForeignProgram out = foreign_program(Dtype::f32, 3, 9, 2);
  out.cut = Cut::rows;
  return out;
}

// Makes the update of `tensor` (empty: of all) at step 0 `factor` times what it is.
ForeignProgram moving(const std::string& tensor, double factor) {
  ForeignProgram out = layout();
  auto before = std::make_shared<std::map<std::string, Values>>();
  out.tensor = [=](int, std::int64_t s, const std::string& what, const std::string& name,
                   Values& values) {
    if (what != "param" || (!tensor.empty() && name != tensor)) return;
    if (s == -1) (*before)[name] = values;
    if (s != 0) return;
    const Values& old = before->at(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = old[i] + factor * (values[i] - old[i]);
    }
  };
  return out;
}

ForeignProgram scaling_moment(const std::string& suffix, double factor) {
  ForeignProgram out = layout();
  out.tensor = [=](int, std::int64_t, const std::string& what, const std::string& name,
                   Values& values) {
    if (what != "moment" || !name.ends_with(suffix)) return;
    for (double& each : values) each *= factor;
  };
  return out;
}

ForeignProgram saying(const std::function<void(StepRecord&)>& change) {
  ForeignProgram out = layout();
  out.step = [=](int, StepRecord& record) { change(record); };
  return out;
}

class SubjectStep : public ::testing::Test {
 protected:
  Trace write(const ForeignProgram& one) {
    return one.write(folder_.file("trace" + std::to_string(next_++)));
  }
  Verdict judge(const ForeignProgram& found, bool float64 = true) {
    const Trace judged = write(found), reference = write(foreign_program(Dtype::f32, 2, 2));
    if (float64) {
      const Trace truth = write(foreign_program(Dtype::f64, 0, 1));
      return check_subject_layout({{&truth, {&reference}, &judged}});
    }
    const Trace one = write(foreign_program(Dtype::f32, 2, 3)),
                two = write(foreign_program(Dtype::f32, 2, 4));
    return check_subject_layout({{&reference, {&one, &two, &reference}, &judged}});
  }
  void expect_fail(const ForeignProgram& found, const std::string& phase) {
    for (const bool float64 : {true, false}) {
      const Verdict verdict = judge(found, float64);
      EXPECT_EQ(verdict.outcome, Outcome::fail) << phase << ": " << verdict.reason;
      ASSERT_TRUE(verdict.difference);
      EXPECT_EQ(verdict.difference->phase, phase) << verdict.difference->print();
    }
  }
  void expect_pass(const ForeignProgram& found) {
    for (const bool float64 : {true, false}) {
      const Verdict verdict = judge(found, float64);
      EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    }
  }

  TempFolder folder_;
  int next_ = 0;
};

TEST_F(SubjectStep, ACleanStepPassesAndItsUpdatesAreCounted) {
  expect_pass(layout());
  const Verdict verdict = judge(layout());
  bool said = false;
  for (const std::string& note : verdict.notes) {
    said = said || note == "6 moments and 3 updates of parameters compared";
  }
  EXPECT_TRUE(said);
}

TEST_F(SubjectStep, AWrongUpdateFailsThoughGradientsAreClean) {
  for (const double factor : {-1.0, 0.0, 2.0, 0.5, 1.2, std::nan("")}) {
    expect_fail(moving("", factor), "update");
  }
  for (const char* tensor : {"a.weight", "b.bias", "scale"}) {
    expect_fail(moving(tensor, 0), "update");
    EXPECT_EQ(judge(moving(tensor, 0)).difference->tensor, tensor);
  }
}

// Where a gradient is next to zero the sign of Adam's update is rounding's.
TEST_F(SubjectStep, AFewPercentOfAnUpdateAreRounding) {
  expect_pass(moving("", 1.03));
  expect_pass(moving("a.weight", 0.97));
}

TEST_F(SubjectStep, WrongMomentsFailThoughGradientsAreClean) {
  for (const char* suffix : {"/exp_avg", "/exp_avg_sq"}) {
    for (const double factor : {1.5, 2.0, -1.0, 1.001}) {
      expect_fail(scaling_moment(suffix, factor), "moment");
    }
    expect_pass(scaling_moment(suffix, 1 + 0x1p-22));
  }
  ForeignProgram lost = layout();
  lost.hide = [](int, std::int64_t, const std::string&, const std::string& name) {
    return name == "b.bias/exp_avg_sq";
  };
  expect_fail(lost, "moment");
  // State of other names may be anything: a count of steps, a factor.
  ForeignProgram other = scaling_moment("/count", 2);
  other.moments = {"count"};
  const Trace truth = write(foreign_program(Dtype::f64, 0, 1)),
              reference = write(foreign_program(Dtype::f32, 2, 2)), found = write(other);
  EXPECT_EQ(check_subject_layout({{&truth, {&reference}, &found}}).outcome, Outcome::pass);
}

TEST_F(SubjectStep, LearningRateAndSkipsAreEqualAtEveryStep) {
  expect_fail(saying([](StepRecord& record) { record.lr *= 2; }), "lr");
  expect_fail(saying([](StepRecord& record) { record.lr *= record.step == 2 ? 2 : 1; }), "lr");
  expect_fail(saying([](StepRecord& record) { record.skipped = record.step == 1; }), "skipped");
}

TEST_F(SubjectStep, LossAndNormOfLaterStepsMayDriftButNotFar) {
  expect_fail(saying([](StepRecord& record) { record.loss *= record.step == 2 ? 1.06 : 1; }),
              "loss");
  expect_fail(
      saying([](StepRecord& record) { record.loss = record.step == 2 ? NAN : record.loss; }),
      "loss");
  expect_fail(saying([](StepRecord& record) { record.grad_norm *= record.step == 2 ? 2 : 1; }),
              "grad_norm");
  expect_pass(saying([](StepRecord& record) {
    record.loss *= record.step > 0 ? 1.02 : 1;
    record.grad_norm *= record.step > 0 ? 0.9 : 1;
  }));
}

TEST_F(SubjectStep, WhatWasNotCapturedIsNotJudged) {
  ForeignProgram blind = moving("", -1);
  blind.hide = [](int, std::int64_t s, const std::string& what, const std::string&) {
    return what == "moment" || (what == "param" && s == 0);
  };
  expect_pass(blind);
}

// One bf16 tensor neither passes by its own rounding nor loosens what the others and scalars may
// be.
TEST_F(SubjectStep, AGradientCoarserThanTheReferencesIsUndecided) {
  const Trace truth = write(foreign_program(Dtype::f64, 0, 1)),
              fine = write(foreign_program(Dtype::f32, 2, 2));
  const auto outcome = [&](const Trace& reference, const ForeignProgram& found) {
    const Trace judged = write(found);
    return check_subject_layout({{&truth, {&reference}, &judged}});
  };
  ForeignProgram found = layout();
  found.dtype = Dtype::bf16;
  const Verdict verdict = outcome(fine, found);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_NE(verdict.reason.find("a.weight is BF16, coarser than the reference's F32"),
            std::string::npos)
      << verdict.reason;
  ForeignProgram mixed = foreign_program(Dtype::f32, 2, 2);
  const auto small_bf16 = [](const std::string& name) {
    return name.starts_with("b.bias") ? Dtype::bf16 : Dtype::f32;
  };
  mixed.dtype_of = small_bf16;
  found = layout();
  found.dtype_of = small_bf16;
  const Trace reference = write(mixed);
  EXPECT_EQ(outcome(reference, found).outcome, Outcome::pass) << outcome(reference, found).reason;
  found.step = [](int, StepRecord& record) { record.loss *= 1.004; };
  EXPECT_EQ(outcome(reference, found).outcome, Outcome::fail);
}

TEST_F(SubjectStep, AReferenceFartherOffThanItsDtypeRoundsDecidesNothing) {
  const Trace truth = write(foreign_program(Dtype::f64, 0, 1)), found = write(layout());
  for (const auto& [noise, wanted] :
       {std::pair{0x1p10, Outcome::pass}, std::pair{0x1p14, Outcome::inconclusive}}) {
    const Trace reference = write(foreign_program(Dtype::f32, noise, 2));
    const Verdict verdict = check_subject_layout({{&truth, {&reference}, &found}});
    EXPECT_EQ(verdict.outcome, wanted) << verdict.reason;
  }
}

// A loss scaler that skips its first step: the first that was done is judged.
TEST_F(SubjectStep, TheFirstStepThatWasNotSkippedIsJudged) {
  const auto skipping = [](ForeignProgram one) {
    one.step = [](int, StepRecord& record) {
      record.skipped = record.step == 0;
      if (record.skipped) record.grad_norm = std::numeric_limits<double>::infinity();
    };
    return one;
  };
  const Trace truth = write(skipping(foreign_program(Dtype::f64, 0, 1))),
              reference = write(skipping(foreign_program(Dtype::f32, 2, 2))),
              found = write(skipping(layout()));
  EXPECT_EQ(check_subject_layout({{&truth, {&reference}, &found}}).outcome, Outcome::pass)
      << check_subject_layout({{&truth, {&reference}, &found}}).reason;
  ForeignProgram wrong = skipping(layout());
  wrong.tensor = [](int, std::int64_t s, const std::string& what, const std::string&,
                    Values& values) {
    for (double& each : values) each *= what == "grad" && s == 1 ? 2 : 1;
  };
  const Trace twice = write(wrong), done = write(layout());
  const Verdict verdict = check_subject_layout({{&truth, {&reference}, &twice}});
  ASSERT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.difference->step, 1);
  EXPECT_EQ(check_subject_layout({{&truth, {&reference}, &done}}).outcome, Outcome::fail);
  const Trace plain = write(foreign_program(Dtype::f64, 0, 1));
  EXPECT_EQ(check_subject_layout({{&plain, {&reference}, &found}}).outcome, Outcome::inconclusive);
}

TEST_F(SubjectStep, AFloat64LegOfOtherWeightsIsTheOneThatIsNamed) {
  ForeignProgram other = foreign_program(Dtype::f64, 0, 1);
  other.tensor = [](int, std::int64_t, const std::string& what, const std::string&,
                    Values& values) {
    for (double& each : values) each *= what == "param" ? 1.5 : 1;
  };
  const Trace truth = write(other), reference = write(foreign_program(Dtype::f32, 2, 2)),
              found = write(layout());
  const Verdict verdict = check_subject_layout({{&truth, {&reference}, &found}});
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_NE(verdict.reason.find("the float64 leg starts from other weights than the reference"),
            std::string::npos)
      << verdict.reason;
}

TEST(SubjectPolicies, EveryToleranceSaysWhy) {
  for (const Policy* each : {&subject_linear_moment(), &subject_square_moment(), &subject_update(),
                             &subject_loss_drift(), &subject_norm_drift()}) {
    EXPECT_FALSE(each->reason.empty());
    EXPECT_GT(each->bound, 0);
  }
}

}  // namespace
}  // namespace shardproof

// ctest: invariant
// layout over traces of anybody's program: rounding and look-alikes stay quiet, mistakes do not.
#include <gtest/gtest.h>

#include <cmath>

#include "invariants/compare_errors.h"
#include "invariants/foreign_trace.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

using Cut = ForeignProgram::Cut;
using Values = std::vector<double>;

ForeignProgram program(Dtype dtype, double noise, std::uint32_t seed, int world = 1) {
  ForeignProgram out = foreign_program(dtype, noise, seed, world);
  out.steps = 2;
  return out;
}

ForeignProgram layout(Cut cut = Cut::whole) {
  ForeignProgram out = program(Dtype::f32, 3, 9, 2);
  out.cut = cut;
  return out;
}

// Changes what every rank writes of the gradient `name` (empty: of all).
ForeignProgram wrong(const std::string& name, const std::function<void(int, Values&)>& change) {
  ForeignProgram out = layout();
  out.tensor = [=](int rank, std::int64_t, const std::string& what, const std::string& tensor,
                   Values& values) {
    if (what == "grad" && (name.empty() || tensor == name)) change(rank, values);
  };
  return out;
}

class SubjectLayout : public ::testing::Test {
 protected:
  Trace write(const ForeignProgram& one) {
    return one.write(folder_.file("trace" + std::to_string(next_++)));
  }
  // Against float64 with one reference in fp32, or (without) against fp32 with three benign runs.
  Verdict judge(const ForeignProgram& found, bool float64 = true) {
    const Trace judged = write(found);
    if (float64) {
      const Trace truth = write(program(Dtype::f64, 0, 1)), reference = write(reference_);
      return check_subject_layout({{&truth, {&reference}, &judged}});
    }
    ForeignProgram reversed = program(Dtype::f32, 2, 3), repeat = reference_;
    reversed.reversed = true;
    const Trace truth = write(reference_), one = write(reversed), again = write(repeat),
                other = write(program(Dtype::f32, 2, 4));
    return check_subject_layout({{&truth, {&one, &other, &again}, &judged}});
  }
  void expect_fail(const ForeignProgram& found, const std::string& phase) {
    for (const bool float64 : {true, false}) {
      const Verdict verdict = judge(found, float64);
      EXPECT_EQ(verdict.outcome, Outcome::fail) << verdict.reason;
      ASSERT_TRUE(verdict.difference) << verdict.reason;
      EXPECT_EQ(verdict.difference->phase, phase) << verdict.difference->print();
    }
  }

  TempFolder folder_;
  int next_ = 0;
  ForeignProgram reference_ = program(Dtype::f32, 2, 2);
};

TEST_F(SubjectLayout, RoundingPassesOnEveryCutAndTheWorstIsNamed) {
  for (const Cut cut : {Cut::whole, Cut::rows, Cut::columns}) {
    const Verdict verdict = judge(layout(cut));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    ASSERT_FALSE(verdict.notes.empty());
    EXPECT_TRUE(verdict.notes[0].starts_with("worst ratio ")) << verdict.notes[0];
  }
}

TEST_F(SubjectLayout, LookAlikesStayQuiet) {
  ForeignProgram reversed = layout();
  reversed.reversed = true;
  EXPECT_EQ(judge(reversed).outcome, Outcome::pass);
  // Later steps have other weights, and are not judged.
  ForeignProgram later = layout();
  later.tensor = [](int, std::int64_t s, const std::string&, const std::string&, Values& values) {
    for (double& each : values) each *= s >= 1 ? 3 : 1;
  };
  later.step = [](int, StepRecord& record) { record.loss *= record.step > 0 ? 1.01 : 1; };
  EXPECT_EQ(judge(later).outcome, Outcome::pass);
  // A parameter that no side has a gradient of.
  const auto frozen = [](ForeignProgram one) {
    one.hide = [](int, std::int64_t, const std::string& what, const std::string& name) {
      return what == "grad" && name == "b.bias";
    };
    return one;
  };
  reference_ = frozen(reference_);
  const Trace truth = write(frozen(program(Dtype::f64, 0, 1))), reference = write(reference_),
              judged = write(frozen(layout()));
  EXPECT_EQ(check_subject_layout({{&truth, {&reference}, &judged}}).outcome, Outcome::pass);
}

TEST_F(SubjectLayout, WrongGradientsFailThoughLossAndWeightsAreClean) {
  for (const double factor : {0.5, 2.0, -1.0, 1.0001}) {
    expect_fail(wrong("",
                      [=](int, Values& values) {
                        for (double& each : values) each *= factor;
                      }),
                "grad");
  }
  expect_fail(wrong("a.weight", [](int rank, Values& values) { values[17] += rank; }), "grad");
  expect_fail(wrong("scale", [](int, Values& values) { values[0] = std::nan(""); }), "grad");
}

TEST_F(SubjectLayout, TheFirstDifferenceNamesIndexRanksBitsAndTimes) {
  const Verdict verdict =
      judge(wrong("a.weight", [](int rank, Values& values) { values[17] += rank; }));
  ASSERT_TRUE(verdict.difference);
  const Difference& at = *verdict.difference;
  EXPECT_EQ(at.tensor, "a.weight");
  EXPECT_EQ(at.index, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(at.rank, 1);
  EXPECT_EQ(at.left_ranks, (std::vector<int>{0}));
  EXPECT_EQ(at.right_ranks, (std::vector<int>{0, 1}));
  EXPECT_NE(at.left.find("(F64 "), std::string::npos) << at.left;
  EXPECT_NE(at.right.find("(F32 "), std::string::npos) << at.right;
  EXPECT_GT(at.times, 1000);
  EXPECT_NE(at.print().find("index [2,1], on rank 0 against ranks 0,1"), std::string::npos)
      << at.print();
}

TEST_F(SubjectLayout, AGradientOfOneSideAloneFails) {
  ForeignProgram lost = layout();
  lost.hide = [](int, std::int64_t, const std::string& what, const std::string& name) {
    return what == "grad" && name == "b.bias";
  };
  expect_fail(lost, "grad");
  ForeignProgram hole = layout(Cut::rows);
  hole.hide = [](int rank, std::int64_t, const std::string& what, const std::string& name) {
    return rank == 1 && what == "grad" && name == "a.weight";
  };
  expect_fail(hole, "grad");
}

TEST_F(SubjectLayout, LossAndNormOfEveryRankAreThoseOfTheWhole) {
  ForeignProgram loss = layout();
  loss.step = [](int rank, StepRecord& record) { record.loss *= rank == 1 ? 1.0001 : 1; };
  expect_fail(loss, "loss");
  ForeignProgram norm = layout(Cut::rows);  // of the local shard
  norm.step = [](int, StepRecord& record) { record.grad_norm *= std::sqrt(0.5); };
  expect_fail(norm, "grad_norm");
  norm.step = [](int rank, StepRecord& record) { record.grad_norm *= rank == 1 ? 1.01 : 1; };
  expect_fail(norm, "grad_norm");
  loss.step = [](int, StepRecord& record) { record.loss = std::nan(""); };
  expect_fail(loss, "loss");
}

TEST_F(SubjectLayout, OtherSamplesWeightsOrStepsFail) {
  ForeignProgram samples = layout();
  samples.step = [](int rank, StepRecord& record) { record.samples.back() += rank; };
  expect_fail(samples, "samples");
  ForeignProgram weights = layout();
  weights.tensor = [](int, std::int64_t s, const std::string&, const std::string&, Values& values) {
    if (s == -1) values[0] *= 1.5;
  };
  expect_fail(weights, "param");
  ForeignProgram begins = layout();
  begins.first = 1;
  expect_fail(begins, "step");
}

TEST_F(SubjectLayout, ALaterStartIsJudgedAtItsOwnFirstStep) {
  ForeignProgram exact = program(Dtype::f64, 0, 1), plain = reference_, good = layout();
  for (ForeignProgram* each : {&exact, &plain, &good}) each->first = 1;
  ForeignProgram bad = good;
  bad.tensor = [](int, std::int64_t, const std::string& what, const std::string&, Values& values) {
    for (double& each : values) each *= what == "grad" ? 0.5 : 1;
  };
  const Trace truth = write(exact), reference = write(plain), right = write(good), no = write(bad);
  EXPECT_EQ(check_subject_layout({{&truth, {&reference}, &right}}).outcome, Outcome::pass);
  const Verdict verdict =
      check_subject_layout({{&truth, {&reference}, &right}, {&truth, {&reference}, &no}});
  ASSERT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.difference->step, 1);
}

TEST_F(SubjectLayout, Bf16IsASecondTierAndSaysSo) {
  constexpr double bf16 = 0x1p15;  // its rounding in units of fp32's
  reference_ = program(Dtype::bf16, bf16, 2);
  ForeignProgram close = program(Dtype::bf16, 1.2 * bf16, 9, 2);
  const Verdict verdict = judge(close);
  ASSERT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_NE(verdict.notes.back().find("bf16: a second, weaker tier"), std::string::npos);
  close.tensor = [](int, std::int64_t, const std::string& what, const std::string&,
                    Values& values) {
    for (double& each : values) each *= what == "grad" ? 0.5 : 1;
  };
  EXPECT_EQ(judge(close).outcome, Outcome::fail);
}

TEST_F(SubjectLayout, WithoutFloat64TheSpreadOfBenignRunsIsAllowedAndSaid) {
  const Verdict verdict = judge(layout(), false);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_NE(verdict.notes.back().find("no float64 leg"), std::string::npos);
  const Trace truth = write(reference_), one = write(program(Dtype::f32, 2, 3)),
              found = write(layout());
  EXPECT_EQ(check_subject_layout({{&truth, {&one, &one}, &found}}).outcome, Outcome::inconclusive);
}

// A benign run that is wrong itself must not widen what is allowed.
TEST_F(SubjectLayout, AReferenceThatIsWrongDecidesNothing) {
  reference_.tensor = [](int, std::int64_t, const std::string& what, const std::string&,
                         Values& values) {
    for (double& each : values) each *= what == "grad" ? 0.5 : 1;
  };
  EXPECT_EQ(judge(layout()).outcome, Outcome::inconclusive);
  reference_.tensor = [](int, std::int64_t s, const std::string&, const std::string&,
                         Values& values) { values[0] += s == -1 ? 1 : 0; };
  const Verdict verdict = judge(layout());
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_NE(verdict.reason.find("a reference is no reference"), std::string::npos);
}

TEST_F(SubjectLayout, AFloat64LegThatStartsFromUnroundedValuesIsUndecided) {
  ForeignProgram exact = program(Dtype::f64, 0, 1);
  exact.tensor = [](int, std::int64_t, const std::string& what, const std::string&,
                    Values& values) {
    for (double& each : values) each *= what == "param" ? 1 + 0x1p-26 : 1;
  };
  const Trace truth = write(exact), reference = write(reference_), found = write(layout());
  const Verdict verdict = check_subject_layout({{&truth, {&reference}, &found}});
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_NE(verdict.reason.find("must start from the values"), std::string::npos) << verdict.reason;
}

TEST_F(SubjectLayout, NothingIsProvenWithoutBothSides) {
  const Trace truth = write(program(Dtype::f64, 0, 1)), reference = write(reference_),
              found = write(layout()), none;
  const auto outcome = [](const Trace* truth, std::vector<const Trace*> references,
                          const Trace* found) {
    return check_subject_layout({{truth, std::move(references), found}}).outcome;
  };
  EXPECT_EQ(check_subject_layout({}).outcome, Outcome::inconclusive);
  EXPECT_EQ(outcome(nullptr, {&reference}, &found), Outcome::inconclusive);
  EXPECT_EQ(outcome(&truth, {&reference}, nullptr), Outcome::inconclusive);
  EXPECT_EQ(outcome(&truth, {nullptr}, &found), Outcome::inconclusive);
  EXPECT_EQ(outcome(&none, {&reference}, &found), Outcome::inconclusive);
  EXPECT_EQ(outcome(&truth, {&reference}, &none), Outcome::inconclusive);
  EXPECT_EQ(outcome(&truth, {}, &found), Outcome::inconclusive);
  for (const char* lost : {"grad", "param"}) {
    Trace blind = found;
    std::erase_if(blind.files, [&](const TensorFileRef& file) { return file.what == lost; });
    EXPECT_EQ(outcome(&truth, {&reference}, &blind), Outcome::inconclusive) << lost;
  }
  Trace lonely = found;
  lonely.ranks.pop_back();
  EXPECT_EQ(outcome(&truth, {&reference}, &lonely), Outcome::inconclusive);
  // One start that is decided does not stand for one that is not.
  EXPECT_EQ(check_subject_layout({{&truth, {&reference}, &found}, {&truth, {}, &found}}).outcome,
            Outcome::inconclusive);
}

TEST(SubjectScalar, EveryToleranceSaysWhy) {
  for (const double unit : {0x1p-24, 0x1p-9, 0x1p-53}) {
    EXPECT_FALSE(subject_scalar(unit).reason.empty());
    EXPECT_GT(subject_scalar(unit).bound, unit);
  }
}

}  // namespace
}  // namespace shardproof

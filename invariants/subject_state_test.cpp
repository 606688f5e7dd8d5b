// ctest: invariant
// live of anybody's program: records that agree, states that are finite and moved.
#include "invariants/subject_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "invariants/foreign_trace.h"
#include "invariants/subject_checks.h"

namespace shardproof {
namespace {

using Values = std::vector<double>;

class SubjectState : public ::testing::Test {
 protected:
  Trace write(const ForeignProgram& one) {
    return one.write(folder_.file("trace" + std::to_string(next_++)));
  }

  TempFolder folder_;
  int next_ = 0;
};

TEST_F(SubjectState, AParameterThatNothingMovesIsNotAlive) {
  const auto live = [&](const ForeignProgram& one) {
    return check_subject_live(write(one), 3, {});
  };
  const auto still = [](const std::string& tensor) {
    ForeignProgram one;
    one.tensor = [=](int, std::int64_t, const std::string& what, const std::string& name,
                     Values& values) {
      if (what == "param" && name == tensor) std::fill(values.begin(), values.end(), 0.5);
    };
    return one;
  };
  for (const char* tensor : {"a.weight", "b.bias", "scale"}) {
    const Verdict verdict = live(still(tensor));
    ASSERT_EQ(verdict.outcome, Outcome::fail) << tensor;
    EXPECT_EQ(verdict.difference->tensor, tensor);
  }
  ForeignProgram frozen = still("b.bias"), waits = still("b.bias"), skips = still("b.bias");
  frozen.run = [](int, Json& run) { run["frozen"] = {"b.bias"}; };
  waits.step = [](int, StepRecord& record) { record.lr = 0; };
  skips.step = [](int, StepRecord& record) { record.skipped = record.step < 2; };
  skips.capture = {-1, 0, 1};
  ForeignProgram noise = still("b.bias");  // a gradient that is all rounding
  noise.tensor = [still = noise.tensor](int r, std::int64_t s, const std::string& what,
                                        const std::string& name, Values& values) {
    still(r, s, what, name, values);
    for (double& each : values) each *= what == "grad" && name == "b.bias" ? 1e-9 : 1;
  };
  ForeignProgram coarse = still("b.bias");
  coarse.dtype = Dtype::bf16;
  for (const ForeignProgram& quiet : {frozen, waits, skips, noise, coarse}) {
    EXPECT_EQ(live(quiet).outcome, Outcome::pass) << live(quiet).reason;
  }
}

TEST_F(SubjectState, LiveNeedsFiniteStatesAndRecordsThatAgree) {
  for (const char* what : {"param", "moment"}) {
    const Verdict verdict = check_subject_live(write(foreign_changing(
                                                   [](int rank, std::int64_t s, Values& values) {
                                                     if (rank == 1 && s == 1) values[7] = NAN;
                                                   },
                                                   what)),
                                               3, {});
    ASSERT_EQ(verdict.outcome, Outcome::fail) << what;
    EXPECT_EQ(verdict.difference->phase, what);
    EXPECT_EQ(verdict.difference->rank, 1);
    EXPECT_EQ(verdict.difference->element, 7);
  }
  const Trace good = write({});
  Trace world = good, end = good, file = good;
  world.ranks[1].world = 3;
  end.ranks[1].ended = 4;
  for (TensorFileRef& each : file.files) each.step += each.step == 2 && each.what == "grad" ? 1 : 0;
  EXPECT_EQ(check_subject_live(good, 3, {}).outcome, Outcome::pass);
  for (const Trace* bad : {&world, &end, &file}) {
    EXPECT_EQ(check_subject_live(*bad, 3, {}).outcome, Outcome::fail);
  }
}

TEST_F(SubjectState, ASkippedStepNeedsNoNormButNotAllMayBeSkipped) {
  ForeignProgram scaled;
  scaled.step = [](int, StepRecord& record) {
    record.skipped = record.step == 0;
    if (record.skipped) record.grad_norm = std::numeric_limits<double>::infinity();
  };
  const Trace one = write(scaled), again = write(scaled);
  EXPECT_EQ(check_subject_live(one, 3, {}).outcome, Outcome::pass);
  EXPECT_EQ(check_repeat(one, again).outcome, Outcome::pass) << check_repeat(one, again).reason;
  scaled.step = [](int, StepRecord& record) { record.skipped = true; };
  EXPECT_EQ(check_subject_live(write(scaled), 3, {}).outcome, Outcome::fail);
}

}  // namespace
}  // namespace shardproof

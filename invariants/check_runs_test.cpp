// ctest: invariant
#include <gtest/gtest.h>

#include <cmath>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

class Runs : public ::testing::Test {
 protected:
  Trace write(const FakeTrainer& fake) {
    return fake.write(folder_.file("trace" + std::to_string(next_++)));
  }
  TempFolder folder_;
  int next_ = 0;
};

FakeTrainer one_rank() {
  FakeTrainer fake;
  fake.world = 1;
  return fake;
}

TEST_F(Runs, RepeatPassesOnTheSameRunTwice) {
  const Verdict verdict = check_repeat(write({}), write({}));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
}

TEST_F(Runs, RepeatPassesOnAReproducibleProgramWhoseCopiesDiffer) {
  for (const bool digest : {true, false}) {
    FakeTrainer fake;
    fake.digest = digest;
    fake.tensor = [](int rank, std::int64_t, const std::string& what, std::vector<float>& values) {
      if (rank == 1 && what == "param") values[3] += 1;
    };
    const Verdict verdict = check_repeat(write(fake), write(fake));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    EXPECT_EQ(check_layout(write(one_rank()), write(fake)).outcome, Outcome::fail);
  }
}

TEST_F(Runs, RepeatComparesEachRankWithItself) {
  FakeTrainer fake;
  fake.step = [](int rank, StepRecord& record) { record.loss += 0.125 * rank; };
  const Trace first = write(fake);
  const Verdict same = check_repeat(first, write(fake));
  EXPECT_EQ(same.outcome, Outcome::pass) << same.reason;
  fake.step = [](int rank, StepRecord& record) {
    record.loss += 0.125 * rank + (rank == 1 && record.step == 2 ? 0.25 : 0);
  };
  const Verdict other = check_repeat(first, write(fake));
  ASSERT_EQ(other.outcome, Outcome::fail);
  EXPECT_EQ(other.difference->rank, 1);
  EXPECT_EQ(other.difference->step, 2);
}

TEST_F(Runs, ADeadRunIsNotEqualToADeadRun) {
  Trace dead = write({});
  dead.ranks[1].ended.reset();
  EXPECT_EQ(check_repeat(dead, dead).outcome, Outcome::inconclusive);
  Trace broken = write({});
  for (RankTrace& rank : broken.ranks) rank.steps[1].loss = std::nan("");
  EXPECT_EQ(check_repeat(broken, broken).outcome, Outcome::inconclusive);
}

TEST_F(Runs, AKindThatNeitherSideTracedIsNotEqual) {
  for (const std::string kind : {"grad", "param", "moment"}) {
    Trace blind = write({});
    for (RankTrace& rank : blind.ranks) {
      std::erase_if(rank.tensors, [&](const TensorRecord& tensor) {
        return tensor.what == kind && tensor.step == 1;
      });
    }
    std::erase_if(blind.files,
                  [&](const TensorFileRef& file) { return file.what == kind && file.step == 1; });
    EXPECT_EQ(check_repeat(blind, blind).outcome, Outcome::inconclusive) << kind;
  }
}

TEST_F(Runs, LayoutPassesOnAnyNumberOfRanks) {
  const Trace reference = write(one_rank());
  for (const int world : {1, 2, 3, 4}) {
    for (const bool share : {true, false}) {
      FakeTrainer fake;
      fake.world = world;
      fake.share_state = share;
      const Verdict verdict = check_layout(reference, write(fake));
      EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    }
  }
}

TEST_F(Runs, LayoutFailsOnOneBitOfAnything) {
  const Trace reference = write(one_rank());
  for (const std::string what : {"param", "grad", "exp_avg", "exp_avg_sq", "master"}) {
    FakeTrainer fake;
    fake.tensor = [&](int, std::int64_t s, const std::string& w, std::vector<float>& values) {
      if (s == 2 && w == what) values[2404] = std::nextafter(values[2404], 9.0f);
    };
    const Verdict verdict = check_layout(reference, write(fake));
    EXPECT_EQ(verdict.outcome, Outcome::fail) << what;
    ASSERT_TRUE(verdict.difference) << what;
    EXPECT_EQ(verdict.difference->step, 2);
    EXPECT_GE(verdict.difference->element, 0);
    const bool moment = what != "param" && what != "grad";
    EXPECT_EQ(verdict.difference->phase, moment ? "moment" : what);
    EXPECT_EQ(verdict.difference->tensor.find("w."), 0u);
    EXPECT_EQ(verdict.difference->left.size(), 8u);
  }
}

TEST_F(Runs, TheFirstDifferenceIsTheCauseNotTheSymptom) {
  FakeTrainer fake;
  fake.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s >= 1 && (what == "grad" || what == "param")) values[0] += 1;
  };
  fake.step = [](int, StepRecord& record) {
    if (record.step >= 1) record.grad_norm += 1;
    if (record.step >= 2) record.loss += 1;
  };
  const Verdict verdict = check_layout(write(one_rank()), write(fake));
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->step, 1);
  EXPECT_EQ(verdict.difference->phase, "grad");
}

TEST_F(Runs, LayoutFailsOnScalarsAndSamples) {
  const Trace reference = write(one_rank());
  const std::vector<std::pair<std::string, std::function<void(StepRecord&)>>> changes = {
      {"loss", [](StepRecord& r) { r.loss = std::nextafter(r.loss, 9.0); }},
      {"grad_norm", [](StepRecord& r) { r.grad_norm = std::nextafter(r.grad_norm, 0.0); }},
      {"lr", [](StepRecord& r) { r.lr = std::nextafter(r.lr, 9.0); }},
      {"samples", [](StepRecord& r) { r.samples.back() += 1; }},
  };
  for (const auto& [phase, change] : changes) {
    FakeTrainer fake;
    fake.step = [&](int rank, StepRecord& record) {
      if (rank == 1 && record.step == 3) change(record);
    };
    const Verdict verdict = check_layout(reference, write(fake));
    EXPECT_EQ(verdict.outcome, Outcome::fail) << phase;
    ASSERT_TRUE(verdict.difference) << phase;
    EXPECT_EQ(verdict.difference->phase, phase);
    EXPECT_EQ(verdict.difference->step, 3);
  }
}

TEST_F(Runs, LayoutIsInconclusiveWithoutTensorsOnEitherSide) {
  FakeTrainer blind;
  blind.digest = false;
  blind.capture = {};
  EXPECT_EQ(check_layout(write(one_rank()), write(blind)).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_layout(write(blind), write(blind)).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_layout(Trace{}, write({})).outcome, Outcome::inconclusive);
}

TEST_F(Runs, DifferentProgramsAreNotComparedAsOne) {
  FakeTrainer other;
  other.run = [](int, Json& run) { run["code"] = "def"; };
  EXPECT_EQ(check_repeat(write({}), write(other)).outcome, Outcome::inconclusive);
}

TEST_F(Runs, LayoutFailsWhenStepsAreMissing) {
  FakeTrainer fake;
  fake.steps = 3;
  const Verdict verdict = check_layout(write(one_rank()), write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
}

FakeTrainer resumed_at_2() {
  FakeTrainer fake;
  fake.first = 2;
  fake.steps = 2;
  return fake;
}

TEST_F(Runs, ResumePassesOnTheSameWalk) {
  const Verdict verdict = check_resume(write({}), write(resumed_at_2()), 2);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
}

TEST_F(Runs, ResumeFailsOnStateThatWasNotReloadedExactly) {
  FakeTrainer fake = resumed_at_2();
  fake.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s == 1 && what == "exp_avg") values[7] = 0;
  };
  const Verdict verdict = check_resume(write({}), write(fake), 2);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->step, 1);
}

TEST_F(Runs, ResumeFailsOnTheSecondStepToo) {
  FakeTrainer fake = resumed_at_2();
  fake.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s == 3 && what == "param") values[7] += 1;
  };
  EXPECT_EQ(check_resume(write({}), write(fake), 2).outcome, Outcome::fail);
}

TEST_F(Runs, ResumeFailsWhenItBeginsElsewhereOrStopsEarly) {
  const Trace uncut = write({});
  EXPECT_EQ(check_resume(uncut, write(resumed_at_2()), 1).outcome, Outcome::fail);
  FakeTrainer early = resumed_at_2();
  early.steps = 1;
  EXPECT_EQ(check_resume(uncut, write(early), 2).outcome, Outcome::fail);
}

TEST_F(Runs, ResumeNeedsTwoSteps) {
  FakeTrainer uncut, late = resumed_at_2();
  late.first = 3;
  late.steps = 1;
  EXPECT_EQ(check_resume(write(uncut), write(late), 3).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof

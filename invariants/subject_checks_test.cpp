// ctest: invariant
// live, cover, data, resume and kill over traces of anybody's program.
#include "invariants/subject_checks.h"

#include <gtest/gtest.h>

#include <cmath>

#include "invariants/foreign_trace.h"

namespace shardproof {
namespace {

using Cut = ForeignProgram::Cut;
using Values = std::vector<double>;

class SubjectChecks : public ::testing::Test {
 protected:
  Trace write(const ForeignProgram& one) {
    return one.write(folder_.file("trace" + std::to_string(next_++)));
  }
  Verdict cover(const ForeignProgram& one, const std::vector<std::int64_t>& asked = {-1, 0, 1, 2}) {
    return check_subject_cover(write(one), asked);
  }
  static ForeignProgram hiding(const std::string& what, const std::string& name, int rank = -1,
                               std::int64_t step = -9) {
    ForeignProgram out;
    out.hide = [=](int at, std::int64_t s, const std::string& kind, const std::string& tensor) {
      return kind == what && (name.empty() || tensor == name) && (rank < 0 || rank == at) &&
             (step == -9 || step == s);
    };
    return out;
  }

  TempFolder folder_;
  int next_ = 0;
};

TEST_F(SubjectChecks, CoverOfACleanProgramPassesOnEveryCut) {
  for (const Cut cut : {Cut::whole, Cut::rows, Cut::columns}) {
    ForeignProgram one;
    one.cut = cut;
    EXPECT_EQ(cover(one).outcome, Outcome::pass) << cover(one).reason;
    one.world = 3;  // 8 columns over 3
    EXPECT_EQ(cover(one).outcome, Outcome::pass) << cover(one).reason;
  }
}

TEST_F(SubjectChecks, CoverJudgesCapturedStepsAlone) {
  ForeignProgram sparse;
  sparse.capture = {-1, 2};
  EXPECT_EQ(cover(sparse, {-1, 2}).outcome, Outcome::pass);
  EXPECT_EQ(cover(sparse, {}).outcome, Outcome::pass);
  EXPECT_EQ(cover(sparse, {-1, 2, 7}).outcome, Outcome::pass) << "step 7 was not done";
  EXPECT_EQ(cover(sparse, {-1, 1, 2}).outcome, Outcome::inconclusive);
  sparse.capture = {2};
  EXPECT_EQ(cover(sparse, {2}).outcome, Outcome::inconclusive) << "the start was not captured";
  ForeignProgram resumed;
  resumed.first = 5;
  resumed.capture = {4, 5};
  EXPECT_EQ(cover(resumed, {-1, 0, 4, 5}).outcome, Outcome::pass);
}

TEST_F(SubjectChecks, ReplicasThatDriftFailCoverAndAreNamed) {
  const Verdict verdict = cover(foreign_changing([](int rank, std::int64_t s, Values& values) {
    if (rank == 1 && s >= 1) values[20] += 0.5;
  }));
  ASSERT_EQ(verdict.outcome, Outcome::fail);
  const Difference& at = *verdict.difference;
  EXPECT_EQ(at.step, 1);
  EXPECT_EQ(at.index, (std::vector<std::int64_t>{2, 4}));
  EXPECT_EQ(at.left_ranks, (std::vector<int>{0}));
  EXPECT_EQ(at.right_ranks, (std::vector<int>{1}));
  EXPECT_GT(at.times, 1000);
  // A broadcast that was skipped: the start differs.
  EXPECT_EQ(cover(foreign_changing([](int rank, std::int64_t s, Values& values) {
              if (rank == 1 && s == -1) values[0] += 1;
            })).outcome,
            Outcome::fail);
  EXPECT_EQ(cover(foreign_changing(
                      [](int rank, std::int64_t, Values& values) { values[3] += rank; }, "moment"))
                .outcome,
            Outcome::fail);
}

TEST_F(SubjectChecks, HolesFailCover) {
  for (const char* what : {"param", "grad", "moment"}) {
    const std::string name = std::string("a.weight") + (what[0] == 'm' ? "/exp_avg" : "");
    ForeignProgram shard = hiding(what, name, 1, 1);
    shard.cut = Cut::columns;
    const Verdict verdict = cover(shard);
    ASSERT_EQ(verdict.outcome, Outcome::fail) << what;
    EXPECT_EQ(verdict.difference->phase, what);
    EXPECT_EQ(verdict.difference->tensor, name);
  }
}

TEST_F(SubjectChecks, LostAndNewParametersFailCover) {
  EXPECT_EQ(cover(hiding("param", "scale", -1, 2)).outcome, Outcome::fail);
  EXPECT_EQ(cover(hiding("param", "scale", -1, -1)).outcome, Outcome::fail);
}

TEST_F(SubjectChecks, OptimizersWithoutMomentsAreLegalAndSaid) {
  ForeignProgram sgd;
  sgd.moments = {};
  const Verdict verdict = cover(sgd);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_NE(verdict.notes.back().find("no moment was captured"), std::string::npos);
  sgd.moments = {"momentum_buffer"};
  EXPECT_EQ(cover(sgd).outcome, Outcome::pass);
}

TEST_F(SubjectChecks, AMomentOrGradientThatLapsesFailsCover) {
  EXPECT_EQ(cover(hiding("moment", "b.bias/exp_avg_sq", -1, 1)).outcome, Outcome::fail);
  for (const std::int64_t step : {0, 1, 2}) {
    const Verdict verdict = cover(hiding("grad", "b.bias", -1, step));
    ASSERT_EQ(verdict.outcome, Outcome::fail) << step;
    EXPECT_EQ(verdict.difference->step, step);
    ForeignProgram skips = hiding("grad", "b.bias", -1, step);
    skips.step = [=](int, StepRecord& record) { record.skipped = record.step == step; };
    EXPECT_EQ(cover(skips).outcome, Outcome::pass) << cover(skips).reason;
  }
  EXPECT_EQ(cover(hiding("moment", "", -1, 2)).outcome, Outcome::inconclusive);
  ForeignProgram silent;
  silent.hide = [](int rank, std::int64_t, const std::string&, const std::string&) {
    return rank == 1;
  };
  const Verdict verdict = cover(silent);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_TRUE(verdict.reason.starts_with("rank 1 captured nothing")) << verdict.reason;
  // One optimizer may keep less than another, or nothing: said in a note.
  EXPECT_EQ(cover(hiding("moment", "b.bias/exp_avg_sq")).outcome, Outcome::pass);
  ForeignProgram none;
  none.hide = [](int, std::int64_t, const std::string& what, const std::string& name) {
    return what == "moment" && name.starts_with("b.bias");
  };
  EXPECT_EQ(cover(none).outcome, Outcome::pass);
  EXPECT_EQ(cover(none).notes.back(), "b.bias has a gradient and no moment, others have one");
  // Two optimizers in one program keep different ones.
  ForeignProgram two;
  two.moments = {"exp_avg", "exp_avg_sq", "momentum_buffer"};
  two.hide = [](int, std::int64_t, const std::string&, const std::string& name) {
    const bool matrix = name.starts_with("a.weight");
    return name.ends_with("/momentum_buffer") ? !matrix : matrix && name.find('/') != name.npos;
  };
  EXPECT_EQ(cover(two).outcome, Outcome::pass) << cover(two).reason;
}

TEST_F(SubjectChecks, NothingTracedIsUndecided) {
  const Trace none;
  ForeignProgram bare;
  bare.capture = {};
  const Trace blind = write(bare);
  for (const Trace* trace : {&none, &blind}) {
    for (const Verdict& verdict :
         {check_subject_cover(*trace, {-1, 0}), check_subject_live(*trace, 3, {}),
          check_subject_bitwise(*trace, *trace), check_subject_resume(*trace, *trace, 0),
          check_subject_kill(*trace, 0, 1, "forward")}) {
      EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << verdict.check << verdict.reason;
      EXPECT_FALSE(verdict.reason.empty());
    }
  }
  EXPECT_EQ(check_subject_data(none, nullptr).outcome, Outcome::inconclusive);
}

TEST_F(SubjectChecks, LiveNeedsStepsGradientsAndGlobalScalars) {
  const auto live = [&](const ForeignProgram& one, std::int64_t steps = 3) {
    return check_subject_live(write(one), steps, {}).outcome;
  };
  EXPECT_EQ(live({}), Outcome::pass);
  EXPECT_EQ(live({}, 4), Outcome::fail);
  EXPECT_EQ(live(hiding("grad", "b.bias")), Outcome::fail);
  EXPECT_EQ(
      live(foreign_changing(
          [](int, std::int64_t, Values& values) { std::fill(values.begin(), values.end(), 0); },
          "grad")),
      Outcome::fail);
  ForeignProgram frozen = hiding("grad", "b.bias");
  frozen.run = [](int, Json& run) { run["frozen"] = {"b.bias"}; };
  EXPECT_EQ(live(frozen), Outcome::pass);
  for (double StepRecord::*member : {&StepRecord::loss, &StepRecord::grad_norm, &StepRecord::lr}) {
    ForeignProgram local;
    local.step = [=](int rank, StepRecord& record) {
      if (rank == 1) record.*member = std::nextafter(record.*member, 9.0);
    };
    EXPECT_EQ(live(local), Outcome::fail);
  }
  ForeignProgram nan;
  nan.step = [](int, StepRecord& record) { record.loss = record.step == 1 ? NAN : record.loss; };
  EXPECT_EQ(live(nan), Outcome::fail);
  ForeignProgram stuck;
  stuck.step = [](int, StepRecord& record) { record.loss = 4; };
  EXPECT_EQ(live(stuck), Outcome::fail);
}

TEST_F(SubjectChecks, LiveKnowsWhenLegsRanOtherPrograms) {
  ForeignProgram edited;
  edited.run = [](int, Json& run) { run["code"] = "def"; };
  const Trace one = write({}), same = write({}), other = write(edited);
  EXPECT_EQ(check_subject_live(one, 3, {&same}).outcome, Outcome::pass);
  EXPECT_EQ(check_subject_live(one, 3, {&same, &other}).outcome, Outcome::fail);
}

TEST_F(SubjectChecks, BitwiseOfAProgramWithoutMomentsPassesAndOneBitFails) {
  ForeignProgram sgd;
  sgd.moments = {};
  ForeignProgram off = sgd;
  off.tensor = foreign_changing([](int, std::int64_t s, Values& values) {
                 if (s == 2) values[1] = std::nextafter(static_cast<float>(values[1]), 9.0f);
               }).tensor;
  const Trace one = write(sgd), again = write(sgd);
  const Verdict verdict = check_subject_bitwise(one, again);
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_NE(verdict.notes.back().find("no moment"), std::string::npos);
  const Verdict bit = check_subject_bitwise(one, write(off));
  ASSERT_EQ(bit.outcome, Outcome::fail);
  EXPECT_EQ(bit.difference->index, (std::vector<std::int64_t>{0, 1}));
  EXPECT_NEAR(bit.difference->times, 1.5, 0.51);  // one last place is one to two roundings
}

TEST_F(SubjectChecks, ResumeIsBitwiseForTwoCapturedSteps) {
  ForeignProgram whole, rest;
  whole.steps = 4;
  whole.capture = rest.capture = {-1, 0, 1, 2, 3};
  rest.first = rest.steps = 2;
  ForeignProgram lost = rest;  // moments: shows in the second step
  lost.tensor = [](int, std::int64_t s, const std::string& what, const std::string&, Values& x) {
    if (s == 3 && what == "param") x[0] += 1;
  };
  ForeignProgram schedule = rest;
  schedule.step = [](int, StepRecord& record) { record.lr = 0.02; };
  ForeignProgram sampler = rest;
  sampler.step = [](int, StepRecord& record) {
    for (auto& each : record.samples) each -= 8;
  };
  const Trace uncut = write(whole);
  const auto resume = [&](const ForeignProgram& one) {
    return check_subject_resume(uncut, write(one), 2).outcome;
  };
  EXPECT_EQ(resume(rest), Outcome::pass);
  EXPECT_EQ(resume(lost), Outcome::fail);
  EXPECT_EQ(resume(schedule), Outcome::fail);
  EXPECT_EQ(resume(sampler), Outcome::fail);
  rest.capture = {1, 2};
  EXPECT_EQ(resume(rest), Outcome::inconclusive);
  EXPECT_EQ(check_subject_resume(uncut, uncut, 2).outcome, Outcome::fail) << "began anew";
}

TEST_F(SubjectChecks, DataIsDisjointOverDataRanksAndEqualInsideAModelCopy) {
  const auto data = [&](const ForeignProgram& one) {
    return check_subject_data(write(one), nullptr);
  };
  ForeignProgram tensor_parallel;
  tensor_parallel.cut = Cut::columns;
  EXPECT_EQ(data({}).outcome, Outcome::pass);
  EXPECT_EQ(data(tensor_parallel).outcome, Outcome::pass) << data(tensor_parallel).reason;
  tensor_parallel.step = [](int rank, StepRecord& record) { record.samples[0] += 20 * rank; };
  EXPECT_EQ(data(tensor_parallel).outcome, Outcome::fail);
  ForeignProgram same;
  same.step = [](int, StepRecord& record) {
    record.samples = {4 * record.step, 4 * record.step + 1};
  };
  EXPECT_EQ(data(same).outcome, Outcome::fail);
  ForeignProgram sharded;  // an axis of another name is one of data
  sharded.run = [](int rank, Json& run) { run["coords"] = {{"fsdp", rank}}; };
  EXPECT_EQ(data(sharded).outcome, Outcome::pass) << data(sharded).reason;
}

TEST_F(SubjectChecks, DataWithoutTheSizeOfAnEpochIsJudgedAsFarAsItCanBe) {
  const auto unsized = [](ForeignProgram one) {
    one.run = [](int, Json& run) { run.erase("data"); };
    return one;
  };
  ForeignProgram repeats;
  repeats.epoch = 8;
  const Verdict known = check_subject_data(write(unsized({})), nullptr);
  EXPECT_EQ(known.outcome, Outcome::pass);
  EXPECT_NE(known.notes.back().find("does not say how many samples"), std::string::npos);
  EXPECT_EQ(check_subject_data(write(repeats), nullptr).outcome, Outcome::pass);
  EXPECT_EQ(check_subject_data(write(unsized(repeats)), nullptr).outcome, Outcome::inconclusive);
  for (const int size : {0, -4}) {
    ForeignProgram none;
    none.run = [=](int, Json& run) { run["data"]["size"] = size; };
    EXPECT_EQ(check_subject_data(write(none), nullptr).outcome, Outcome::fail);
  }
}

TEST_F(SubjectChecks, DataAcrossAResumeKnowsASamplerThatBeganAnew) {
  ForeignProgram rest;
  rest.first = 3;
  const Trace before = write({});
  EXPECT_EQ(check_subject_data(write(rest), &before).outcome, Outcome::pass);
  rest.step = [](int, StepRecord& record) {
    for (auto& each : record.samples) each -= 12;
  };
  EXPECT_EQ(check_subject_data(write(rest), &before).outcome, Outcome::fail);
}

class SubjectKill : public SubjectChecks {
 protected:
  Trace killed() {
    ForeignProgram one;
    one.dies = [](int) { return true; };
    return write(one);
  }
  static Json exit(int code, bool timed_out = false, int left = 0) {
    return {{"kind", "exit"},
            {"exit_code", code},
            {"seconds", 3.25},
            {"timed_out", timed_out},
            {"left", left}};
  }
  static Outcome outcome(Trace trace, const Json& exit, const char* phase = "backward") {
    trace.harness = {{{"kind", "start"}}, exit};
    return check_subject_kill(trace, 1, 2, phase).outcome;
  }
};

TEST_F(SubjectKill, AJobThatEndsWithAnErrorAndLeavesNothingPasses) {
  EXPECT_EQ(outcome(killed(), exit(1)), Outcome::pass);
  EXPECT_EQ(outcome(killed(), exit(-9)), Outcome::pass);
}

TEST_F(SubjectKill, HangsOrphansAndSilenceFail) {
  EXPECT_EQ(outcome(killed(), exit(137, true)), Outcome::fail);
  EXPECT_EQ(outcome(killed(), exit(1, false, 2)), Outcome::fail);
  EXPECT_EQ(outcome(killed(), exit(0)), Outcome::fail);
  EXPECT_EQ(outcome(killed(), exit(1), "optimizer"), Outcome::fail) << "it died elsewhere";
  Trace ended = killed();
  ended.ranks[0].ended = 3;
  EXPECT_EQ(outcome(ended, exit(1)), Outcome::fail);
}

TEST_F(SubjectKill, WhatCannotBeKnownIsUndecided) {
  EXPECT_EQ(outcome(killed(), {{"kind", "other"}}), Outcome::inconclusive);
  EXPECT_EQ(outcome(killed(), {{"kind", "exit"}}), Outcome::inconclusive);
  EXPECT_EQ(outcome(write({}), exit(0), "optimizer"), Outcome::inconclusive) << "nothing fired";
}

}  // namespace
}  // namespace shardproof

// ctest: invariant
#include <gtest/gtest.h>

#include <limits>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

class Live : public ::testing::Test {
 protected:
  Verdict judge(const FakeTrainer& fake, std::int64_t asked = 4) {
    return check_live(fake.write(folder_.file("trace" + std::to_string(next_++))), asked);
  }
  TempFolder folder_;
  int next_ = 0;
};

TEST_F(Live, PassesOnACleanRun) {
  const Verdict verdict = judge({});
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  EXPECT_EQ(verdict.check, "live");
}

TEST_F(Live, FailsWhenStepsAreMissing) {
  EXPECT_EQ(judge({}, 5).outcome, Outcome::fail);
}

TEST_F(Live, FailsWhenARankNeverEnds) {
  FakeTrainer fake;
  fake.dies = [](int rank, std::int64_t step) { return rank == 1 && step == 2; };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("rank 1 never ended; it stopped at step 2 backward"),
            std::string::npos)
      << verdict.reason;
}

TEST_F(Live, FailsWhenTheLossStandsStill) {
  FakeTrainer fake;
  fake.loss = [](std::int64_t) { return 4.0; };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("the same bits at every step"), std::string::npos);
}

TEST_F(Live, FailsOnALossThatIsNotFinite) {
  FakeTrainer fake;
  fake.loss = [](std::int64_t s) {
    return s == 2 ? std::numeric_limits<double>::quiet_NaN() : 1.0 + static_cast<double>(s);
  };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
}

TEST_F(Live, FailsOnAZeroGradientNorm) {
  FakeTrainer fake;
  fake.step = [](int, StepRecord& record) {
    if (record.step == 3) record.grad_norm = 0;
  };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
}

TEST_F(Live, FailsOnAParameterWithoutAGradientUnlessItIsFrozen) {
  for (const bool digest : {true, false}) {
    FakeTrainer fake;
    fake.digest = digest;
    const PieceTable table = fake.table();
    const ElementRange bias = table.range(table.index("w.bias", 0));
    fake.tensor = [bias](int, std::int64_t, const std::string& what, std::vector<float>& values) {
      if (what == "grad") std::fill(values.begin() + bias.lo, values.begin() + bias.hi, 0.0f);
    };
    const Verdict verdict = judge(fake);
    EXPECT_EQ(verdict.outcome, Outcome::fail);
    EXPECT_NE(verdict.reason.find("w.bias"), std::string::npos) << verdict.reason;
    fake.run = [](int, Json& run) { run["frozen"] = Json::array({"w.bias"}); };
    EXPECT_EQ(judge(fake).outcome, Outcome::pass);
  }
}

TEST_F(Live, IsInconclusiveWithoutTensors) {
  FakeTrainer fake;
  fake.digest = false;
  fake.capture = {};
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
}

TEST_F(Live, FailsWhenARankFileIsMissing) {
  const FakeTrainer fake;
  Trace trace = fake.write(folder_.file("short"));
  trace.ranks.pop_back();
  EXPECT_EQ(check_live(trace, 4).outcome, Outcome::fail);
  trace.ranks.clear();
  EXPECT_EQ(check_live(trace, 4).outcome, Outcome::inconclusive);
}

Trace with_losses(const std::vector<double>& losses) {
  Trace trace;
  trace.ranks.emplace_back();
  for (std::size_t i = 0; i < losses.size(); ++i) {
    StepRecord record;
    record.step = static_cast<std::int64_t>(i);
    record.loss = losses[i];
    trace.ranks.front().steps.push_back(record);
  }
  return trace;
}

TEST(LossFalls, AllowsTheSlackAndNoMore) {
  EXPECT_EQ(check_loss_falls(with_losses({4, 4.02, 3}), 0.02, 0.8).outcome, Outcome::pass);
  EXPECT_EQ(check_loss_falls(with_losses({4, 4.03, 3}), 0.02, 0.8).outcome, Outcome::fail);
}

TEST(LossFalls, WantsTheRatio) {
  EXPECT_EQ(check_loss_falls(with_losses({4, 3.6, 3.2}), 0.02, 0.8).outcome, Outcome::pass);
  EXPECT_EQ(check_loss_falls(with_losses({4, 3.6, 3.3}), 0.02, 0.8).outcome, Outcome::fail);
}

TEST(LossFalls, FailsOnANan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(check_loss_falls(with_losses({4, nan, 3}), 0.02, 0.8).outcome, Outcome::fail);
  EXPECT_EQ(check_loss_falls_by_quarters(with_losses({4, 4, 4, nan}), 0.95).outcome, Outcome::fail);
}

TEST(LossFalls, NeedsSteps) {
  EXPECT_EQ(check_loss_falls(with_losses({4}), 0.02, 0.8).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_loss_falls({}, 0.02, 0.8).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_loss_falls_by_quarters(with_losses({4, 3, 2}), 0.95).outcome,
            Outcome::inconclusive);
}

TEST(LossFallsByQuarters, ComparesTheEnds) {
  EXPECT_EQ(check_loss_falls_by_quarters(with_losses({5, 5, 9, 9, 9, 9, 4, 4}), 0.95).outcome,
            Outcome::pass);
  EXPECT_EQ(check_loss_falls_by_quarters(with_losses({5, 5, 1, 1, 1, 1, 5, 5}), 0.95).outcome,
            Outcome::fail);
  EXPECT_EQ(check_loss_falls_by_quarters(with_losses({5.00, 5.01, 4.99, 4.98}), 0.95).outcome,
            Outcome::fail)
      << "batch noise is not learning";
}

class Kill : public ::testing::Test {
 protected:
  Trace killed() {
    FakeTrainer fake;
    fake.dies = [](int, std::int64_t step) { return step == 2; };
    Trace trace = fake.write(folder_.file("trace"));
    trace.harness = {Json{{"kind", "start"}},
                     Json{{"kind", "death"},
                          {"rank", 1},
                          {"seconds", 0.4},
                          {"step", 2},
                          {"phase", "backward"}}};
    return trace;
  }
  static Outcome judge(const Trace& trace, int rank = 1) {
    return check_kill(trace, rank, 2, "backward", 10).outcome;
  }
  TempFolder folder_;
};

TEST_F(Kill, PassesWhenTheDeadRankIsNamedInTime) {
  EXPECT_EQ(judge(killed()), Outcome::pass);
}

TEST_F(Kill, FailsWhenAnotherRankIsNamed) {
  EXPECT_EQ(judge(killed(), 0), Outcome::fail);
}

TEST_F(Kill, FailsWhenNobodyIsNamedOrTooLate) {
  Trace trace = killed();
  trace.harness[1]["seconds"] = 10.5;
  EXPECT_EQ(judge(trace), Outcome::fail);
  trace.harness.pop_back();
  EXPECT_EQ(judge(trace), Outcome::fail);
}

TEST_F(Kill, CountsFromTheLastSignOfLifeWhereItIsKnown) {
  Trace trace = killed();
  trace.harness[1]["seconds"] = 25.0;  // a slow start is no slow naming
  trace.harness[1]["silent_seconds"] = 0.1;
  EXPECT_EQ(judge(trace), Outcome::pass);
  trace.harness[1]["silent_seconds"] = 11.0;
  EXPECT_EQ(judge(trace), Outcome::fail);
}

TEST_F(Kill, FailsWhenTheStarterPlacesTheDeathElsewhere) {
  Trace trace = killed();
  trace.harness[1]["phase"] = "reduced";
  EXPECT_EQ(judge(trace), Outcome::fail);
  trace.harness[1].erase("phase");
  EXPECT_EQ(judge(trace), Outcome::fail) << "a death without a place is not named";
}

TEST_F(Kill, FailsWhenSomethingHung) {
  Trace trace = killed();
  trace.harness.push_back(Json{{"kind", "deadline"}});
  EXPECT_EQ(judge(trace), Outcome::fail);
}

TEST_F(Kill, FailsWhenARankEndsAsIfNothingHadHappened) {
  Trace trace = killed();
  trace.ranks[0].ended = 4;
  EXPECT_EQ(judge(trace), Outcome::fail);
}

TEST_F(Kill, FailsWhenTheFaultFiredElsewhere) {
  Trace trace = killed();
  trace.ranks[1].last_at = AtRecord{2, "forward"};
  EXPECT_EQ(judge(trace), Outcome::fail);
}

TEST_F(Kill, IsInconclusiveWithoutTheStartersRecord) {
  Trace trace = killed();
  trace.harness.clear();
  EXPECT_EQ(judge(trace), Outcome::inconclusive);
}

Trace saved(int exit_code) {
  Trace trace;
  trace.ranks.emplace_back();
  trace.ranks[0].checkpoints = {{2, "out/step-00000002", false}, {2, "out/step-00000002", true}};
  trace.harness = {Json{{"kind", "verify"},
                        {"id", "step-00000002"},
                        {"exit_code", exit_code},
                        {"output", "a digest is wrong"}}};
  return trace;
}

TEST(Verified, IsWhatTheOtherProcessSaid) {
  EXPECT_EQ(check_verified(saved(0), "step-00000002").outcome, Outcome::pass);
  const Verdict verdict = check_verified(saved(1), "step-00000002");
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("a digest is wrong"), std::string::npos);
}

TEST(Verified, IsInconclusiveWhenNothingWasSavedOrNobodyLooked) {
  EXPECT_EQ(check_verified(saved(0), "step-00000004").outcome, Outcome::inconclusive);
  Trace trace = saved(0);
  trace.harness.clear();
  EXPECT_EQ(check_verified(trace, "step-00000002").outcome, Outcome::inconclusive);
  trace = saved(0);
  trace.ranks[0].checkpoints.pop_back();  // begun and never done
  EXPECT_EQ(check_verified(trace, "step-00000002").outcome, Outcome::inconclusive);
}

Trace with_batches(std::vector<double> losses, std::vector<std::int64_t> last_batch) {
  Trace trace = with_losses(losses);
  for (StepRecord& step : trace.ranks.front().steps) step.samples = {2, 0, 1};
  trace.ranks.front().steps.back().samples = std::move(last_batch);
  return trace;
}

TEST(Overfit, WantsTheLastLossBelowItsShareOfAGuess) {
  const auto judge = [](std::vector<double> losses) {
    return check_overfit(with_batches(std::move(losses), {0, 1, 2}), 64, 0.25).outcome;
  };
  EXPECT_EQ(judge({4, 3, 1}), Outcome::pass);  // a quarter of ln 64 is 1.04
  EXPECT_EQ(judge({4, 1, 1.1}), Outcome::fail);
  EXPECT_EQ(judge({4, 1, std::numeric_limits<double>::quiet_NaN()}), Outcome::fail);
}

TEST(Overfit, OfOneBatchAlone) {
  const Verdict verdict = check_overfit(with_batches({4, 3, 1}, {0, 1, 3}), 64, 0.25);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.reason, "step 2 trains on other samples than step 0");
}

TEST(Overfit, IsOpenWithoutStepsOrSamples) {
  EXPECT_EQ(check_overfit({}, 64, 0.25).outcome, Outcome::inconclusive);
  EXPECT_EQ(check_overfit(with_losses({4, 1}), 64, 0.25).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof

// ctest: invariant
#include <gtest/gtest.h>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

class Optimizer : public ::testing::Test {
 protected:
  Verdict judge(const FakeTrainer& fake) {
    return check_optimizer(fake.write(folder_.file("trace" + std::to_string(next_++))));
  }
  TempFolder folder_;
  int next_ = 0;
};

TEST_F(Optimizer, PassesOnCleanRuns) {
  for (const int world : {1, 2, 3}) {
    FakeTrainer fake;
    fake.world = world;
    const Verdict verdict = judge(fake);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    ASSERT_FALSE(verdict.notes.empty());
    EXPECT_NE(verdict.notes[0].find("4 steps"), std::string::npos) << verdict.notes[0];
    EXPECT_NE(verdict.notes[0].find("at work on 4"), std::string::npos) << verdict.notes[0];
  }
}

TEST_F(Optimizer, PassesWithoutAClip) {
  FakeTrainer fake;
  fake.clip = 0;
  EXPECT_EQ(judge(fake).outcome, Outcome::pass);
}

TEST_F(Optimizer, NamesAMomentThatAnotherClipFactorGave) {
  FakeTrainer fake;
  fake.run = [](int, Json& run) { run["config"]["training"]["clip"] = 1.00001; };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->step, 0);
  EXPECT_EQ(verdict.difference->phase, "moment");
  EXPECT_GE(verdict.difference->element, 0);
  EXPECT_GE(verdict.difference->rank, 0);
}

TEST_F(Optimizer, FailsOnEveryWrongSetting) {
  const std::vector<std::pair<std::string, Json>> wrong = {
      {"beta1", 0.90001}, {"beta2", 0.95001},          {"epsilon", 1e-5},
      {"lr", 0.010001},   {"no_decay", Json::array()}, {"weight_decay", 0.1001}};
  for (const auto& [key, value] : wrong) {
    FakeTrainer fake;
    fake.run = [&](int, Json& run) { run["config"]["optimizer"][key] = value; };
    EXPECT_EQ(judge(fake).outcome, Outcome::fail) << key;
  }
}

TEST_F(Optimizer, FailsOnAWrongScheduleOrNorm) {
  FakeTrainer fake;
  fake.run = [](int, Json& run) { run["config"]["optimizer"]["warmup"] = 2; };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
  fake = {};
  fake.run = [](int, Json& run) { run["config"]["optimizer"]["decay_steps"] = 4; };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
  fake = {};
  fake.step = [](int, StepRecord& record) { record.grad_norm *= 1 + 1e-9; };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("grad_norm"), std::string::npos);
}

TEST_F(Optimizer, NamesOneElementOfTheParametersThatIsSlightlyOff) {
  FakeTrainer fake;
  fake.world = 1;
  fake.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s == 3 && what == "param") values[2400] += 1e-5f;
  };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  const PieceTable table = fake.table();
  const int piece = table.index(verdict.difference->tensor, verdict.difference->piece);
  EXPECT_EQ(table.range(piece).lo + verdict.difference->element, 2400);
  EXPECT_EQ(verdict.difference->step, 3);
}

TEST_F(Optimizer, FailsWhenAStepWasNotTaken) {
  FakeTrainer fake;
  std::vector<float> before;
  fake.world = 1;
  fake.tensor = [&](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (what != "param") return;
    if (s == 1) before = values;
    if (s == 2) values = before;
  };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
}

TEST_F(Optimizer, JudgesOnlyConsecutiveSteps) {
  FakeTrainer fake;
  fake.capture = {-1, 0, 2};
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::pass);
  EXPECT_NE(verdict.notes[0].find("1 steps"), std::string::npos) << verdict.notes[0];
}

TEST_F(Optimizer, IsOpenInATraceThatIsKeptToSomeNames) {
  FakeTrainer fake;
  fake.hide = [](int, std::int64_t, const std::string&, const PieceSpec& piece) {
    return piece.name != "w.bias";
  };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail) << "the norm is not theirs";
  fake.run = [](int, Json& run) { run["match"] = "bias"; };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_NE(verdict.reason.find("match \"bias\""), std::string::npos) << verdict.reason;
}

TEST_F(Optimizer, IsInconclusiveWithoutCapturedBytesOrConfig) {
  FakeTrainer fake;
  fake.capture = {0, 2};
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
  fake = {};
  fake.run = [](int, Json& run) { run.erase("config"); };
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
  fake = {};
  fake.run = [](int, Json& run) { run["config"]["optimizer"].erase("beta2"); };
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof

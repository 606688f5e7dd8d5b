// ctest: invariant
#include <gtest/gtest.h>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

using Ids = std::vector<std::int64_t>;

// One step per row; one list of ids per rank.
Trace with_samples(const std::vector<std::vector<Ids>>& steps, std::int64_t size) {
  Trace trace;
  for (std::size_t r = 0; r < steps.front().size(); ++r) {
    RankTrace rank;
    rank.rank = static_cast<int>(r);
    rank.world = static_cast<int>(steps.front().size());
    rank.run = Json::object();
    if (size > 0) rank.run["data"] = Json{{"size", size}};
    for (std::size_t s = 0; s < steps.size(); ++s) {
      StepRecord record;
      record.step = static_cast<std::int64_t>(s);
      record.samples = steps[s][r];
      rank.steps.push_back(record);
    }
    trace.ranks.push_back(rank);
  }
  return trace;
}

Outcome judge(const std::vector<std::vector<Ids>>& steps, std::int64_t size) {
  return check_data(with_samples(steps, size)).outcome;
}

TEST(Data, PassesOnAnExactCoverOfTwoEpochs) {
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{7, 0}, {3, 1}}, {{2, 4}, {5, 6}}}, 8),
            Outcome::pass);
}

TEST(Data, AnEpochMayLeaveLessThanOneBatch) {
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{3, 4}, {1, 0}}}, 5), Outcome::pass);
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{3, 4}, {1, 0}}}, 8), Outcome::fail);
}

TEST(Data, AShortBatchEndsAnEpoch) {
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4}, {}}, {{1, 0}, {4, 2}}}, 5), Outcome::pass);
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4}, {}}, {{5, 6}, {7, 0}}}, 8), Outcome::fail);
}

TEST(Data, ABatchMayEndAnEpochAndBeginTheNext) {
  const std::vector<std::vector<Ids>> stream = {
      {{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8, 9}, {9, 6}}, {{0, 1}, {2, 4}}, {{5, 7}, {8, 3}}};
  EXPECT_EQ(judge(stream, 10), Outcome::pass);
  auto twice = stream;
  twice[3][0] = {9, 1};  // 9 has begun the second epoch
  EXPECT_EQ(judge(twice, 10), Outcome::fail);
  auto lost = stream;
  lost[2] = {{8, 5}, {6, 3}};  // 9 is not taken, so this begins the second, which has 8
  lost[3] = {{8, 1}, {2, 4}};
  EXPECT_EQ(judge(lost, 10), Outcome::fail);
}

// The same batch could end an epoch, and the steps behind it say that it did not.
TEST(Data, WhereTheRestIsDroppedTheNextEpochBeginsAnew) {
  const std::vector<std::vector<Ids>> dropped = {
      {{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}, {{8, 9}, {3, 6}}, {{0, 1}, {2, 4}}, {{5, 7}, {8, 9}}};
  EXPECT_EQ(judge(dropped, 10), Outcome::pass);
}

TEST(Data, ASamplerThatPadsIsToldSo) {
  const Verdict verdict =
      check_data(with_samples({{{0, 2}, {1, 3}}, {{4, 6}, {5, 7}}, {{8}, {0}}}, 9));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("DistributedSampler"), std::string::npos) << verdict.reason;
}

// The run says its global batch, and what becomes of a short one.
Verdict judge_configured(const std::vector<std::vector<Ids>>& steps, std::int64_t size,
                         std::int64_t batch, const std::string& last) {
  Trace trace = with_samples(steps, size);
  for (RankTrace& rank : trace.ranks) {
    rank.run["config"] = Json{{"training", {{"global_batch", batch}}}, {"data", {{"last", last}}}};
  }
  return check_data(trace);
}

TEST(Data, FillersAreNoSamples) {
  EXPECT_EQ(judge({{{-1, -1}, {-1, -1}}, {{-1, -1}, {-1, -1}}}, 8), Outcome::fail);
  EXPECT_EQ(judge({{{-1, -1}, {-1, -1}}}, 0), Outcome::fail);
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{-1, -1}, {-1, -1}}}, 8), Outcome::fail);
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4, -1}, {-1, -1}}}, 5), Outcome::pass);
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4, -1}, {-1, -1}}}, 8), Outcome::fail);
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4, -1}, {-1, -1}}}, 0), Outcome::inconclusive);
  EXPECT_EQ(judge({{{}, {}}, {{}, {}}}, 8), Outcome::inconclusive) << "nothing was traced";
}

TEST(Data, EveryStepTakesTheGlobalBatchOfTheConfig) {
  const std::vector<std::vector<Ids>> fours = {{{0, 1}, {2, 3}}, {{4, 5}, {6, 7}}};
  for (const std::string last : {"drop", "short"}) {
    EXPECT_EQ(judge_configured(fours, 8, 4, last).outcome, Outcome::pass) << last;
    for (const std::int64_t other : {3, 5, 8}) {
      const Verdict verdict = judge_configured(fours, 8, other, last);
      EXPECT_EQ(verdict.outcome, Outcome::fail) << last << other;
      EXPECT_NE(verdict.reason.find("training.global_batch is " + std::to_string(other)),
                std::string::npos)
          << verdict.reason;
    }
  }
}

TEST(Data, AShortBatchFollowsTheDeclaredPolicy) {
  const std::vector<std::vector<Ids>> kept = {{{0, 1}, {2, 3}}, {{4, -1}, {}}, {{1, 0}, {4, 2}}};
  const std::vector<std::vector<Ids>> dropped = {{{0, 1}, {2, 3}}, {{3, 4}, {1, 0}}};
  EXPECT_EQ(judge_configured(kept, 5, 4, "short").outcome, Outcome::pass);
  EXPECT_EQ(judge_configured(kept, 5, 4, "drop").outcome, Outcome::fail);
  EXPECT_EQ(judge_configured(dropped, 5, 4, "drop").outcome, Outcome::pass);
  EXPECT_EQ(judge_configured(dropped, 5, 4, "short").outcome, Outcome::fail);
}

TEST(Data, ATraceThatBeginsInsideAnEpochIsOpenWhereTheEpochEnds) {
  const auto later = [](std::vector<std::vector<Ids>> steps) {
    Trace trace = with_samples(steps, 8);
    for (RankTrace& rank : trace.ranks) {
      for (StepRecord& record : rank.steps) record.step += 3;
    }
    return check_data(trace).outcome;
  };
  EXPECT_EQ(later({{{4, 5}, {6, 7}}, {{3, 2}, {1, 0}}}), Outcome::pass);
  EXPECT_EQ(later({{{4, 5}, {6, 7}}, {{7, 2}, {1, 0}}}), Outcome::inconclusive);
  EXPECT_EQ(later({{{4, 5}, {5, 7}}}), Outcome::fail);
}

// Where config and data size say at which place of its epoch a step stands: ten samples, batches of
// four; "drop" has two steps an epoch, "short" three.
TEST(Data, ATraceThatBeginsInsideAnEpochIsDecidedByItsStep) {
  const auto later = [](std::int64_t first, const std::string& last, std::vector<Ids> steps) {
    std::vector<std::vector<Ids>> rows;
    for (const Ids& ids : steps) rows.push_back({ids});
    Trace trace = with_samples(rows, 10);
    trace.ranks[0].run["config"] =
        Json{{"training", {{"global_batch", 4}}}, {"data", {{"last", last}}}};
    for (StepRecord& record : trace.ranks[0].steps) record.step += first;
    const Verdict verdict = check_data(trace);
    EXPECT_NE(verdict.outcome, Outcome::inconclusive) << verdict.reason;
    return verdict.outcome;
  };
  const Ids low = {0, 1, 2, 3}, high = {4, 5, 6, 7}, mixed = {3, 8, 9, 4};
  EXPECT_EQ(later(3, "drop", {low, high, mixed}), Outcome::fail) << "3 and 8: 4 was taken";
  EXPECT_EQ(later(3, "drop", {low, high, {3, 8, 9, 0}}), Outcome::pass);
  EXPECT_EQ(later(3, "drop", {low, mixed, {5, 6, 7, 0}}), Outcome::pass) << "3 again: a new epoch";
  EXPECT_EQ(later(2, "drop", {low, mixed}), Outcome::fail) << "3 again: the same epoch";
  EXPECT_EQ(later(3, "drop", {low, {4, 5, 6}}), Outcome::fail);
  EXPECT_EQ(later(4, "short", {low, {4, 5}, low}), Outcome::pass);
  EXPECT_EQ(later(4, "short", {low, {4}, low}), Outcome::fail) << "one was left";
  EXPECT_EQ(later(4, "short", {low, high}), Outcome::fail) << "two were left";
  EXPECT_EQ(later(4, "short", {low, {4, 5}, high, mixed}), Outcome::fail) << "4 again";
}

TEST(Data, FailsWhenTwoDataRanksShareASample) {
  const Verdict verdict = check_data(with_samples({{{0, 1}, {2, 3}}, {{4, 5}, {5, 6}}}, 8));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("sample 5"), std::string::npos) << verdict.reason;
}

TEST(Data, FailsOnASampleThatDoesNotExist) {
  EXPECT_EQ(judge({{{0, 1}, {2, 8}}}, 8), Outcome::fail);
  EXPECT_EQ(judge({{{0, 1}, {2, -2}}}, 8), Outcome::fail);
}

TEST(Data, FailsWhenTheBatchChangesItsSize) {
  EXPECT_EQ(judge({{{0, 1}, {2, 3}}, {{4}, {5}}}, 8), Outcome::fail);
  EXPECT_EQ(judge({{{0}, {1}}, {{2, 3}, {4, 5}}}, 8), Outcome::fail);
}

TEST(Data, ModelParallelPeersSeeTheSameSamples) {
  Trace trace = with_samples({{{0, 1}, {0, 1}}, {{2, 3}, {2, 3}}}, 8);
  for (RankTrace& rank : trace.ranks) {
    rank.run["coords"] = Json{{"dp", 0}, {"tp", rank.rank}};
  }
  EXPECT_EQ(check_data(trace).outcome, Outcome::pass);
  trace.ranks[1].steps[1].samples = {3, 2};
  EXPECT_EQ(check_data(trace).outcome, Outcome::fail);
}

TEST(Data, AResumedRunIsJudgedBehindTheStepsBeforeIt) {
  const Trace uncut = with_samples({{{0, 1}}, {{2, 3}}, {{4, 5}}}, 6);
  Trace resumed = uncut;
  resumed.ranks[0].steps.erase(resumed.ranks[0].steps.begin());
  EXPECT_EQ(check_data(resumed, &uncut).outcome, Outcome::pass);
  resumed.ranks[0].steps[0].samples = {1, 0};  // begins again
  EXPECT_EQ(check_data(resumed, &uncut).outcome, Outcome::fail);
}

TEST(Data, IsInconclusiveWhenTheEpochIsNotKnown) {
  EXPECT_EQ(judge({{{0, 1}}, {{1, 0}}}, 0), Outcome::inconclusive);
  EXPECT_EQ(judge({{{0, 1}}, {{2, 3}}}, 0), Outcome::pass);
  EXPECT_EQ(check_data(Trace{}).outcome, Outcome::inconclusive);
}

class OptimizerBytes : public ::testing::Test {
 protected:
  Verdict judge(const FakeTrainer& fake) {
    return check_optimizer_bytes(fake.write(folder_.file("trace" + std::to_string(next_++))));
  }
  TempFolder folder_;
  int next_ = 0;
};

TEST_F(OptimizerBytes, PassWhenTheStateIsShared) {
  for (const int world : {1, 2, 3, 4}) {
    FakeTrainer fake;
    fake.world = world;
    const Verdict verdict = judge(fake);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  }
}

TEST_F(OptimizerBytes, PassWhenNothingIsShared) {
  FakeTrainer fake;
  fake.share_state = false;
  EXPECT_EQ(judge(fake).outcome, Outcome::pass);
}

// Two tensor ranks: each has half of the weight and the whole bias, and shares with nobody.
FakeTrainer tensor_ranks(std::int64_t too_much) {
  FakeTrainer fake;
  fake.share_state = false;
  fake.run = [](int rank, Json& facts) {
    facts["coords"] = Json{{"dp", 0}, {"tp", rank}};
    facts["layout"] = "tp2.zero1";
  };
  fake.hide = [](int rank, std::int64_t, const std::string&, const PieceSpec& piece) {
    return piece.pieces > 1 && piece.piece != rank;
  };
  fake.memory = [=](int rank, std::int64_t, Json& event) {
    event["bytes"]["optimizer"] = 12 * (1200 + 5 + (rank == 1 ? too_much : 0));
  };
  return fake;
}

TEST_F(OptimizerBytes, CountTheParametersOfTheOwnTensorRank) {
  EXPECT_EQ(judge(tensor_ranks(0)).outcome, Outcome::pass);
  const Verdict little = judge(tensor_ranks(1));
  EXPECT_EQ(little.outcome, Outcome::fail);
  EXPECT_NE(little.reason.find("P = 1205, R = 1"), std::string::npos) << little.reason;
  EXPECT_EQ(judge(tensor_ranks(1200)).outcome, Outcome::fail);
}

TEST_F(OptimizerBytes, AreInconclusiveUnderALayoutOfOtherWords) {
  for (const std::string layout : {"fsdp+tp2", "", "dp2.zero9", "dp99999999999", "\xff"}) {
    FakeTrainer fake;
    fake.run = [=](int, Json& run) { run["layout"] = layout; };
    const Verdict verdict = judge(fake);
    EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << layout;
    EXPECT_NE(verdict.reason.find("layout is not one of ours"), std::string::npos)
        << verdict.reason;
  }
}

TEST_F(OptimizerBytes, AreOpenInATraceThatIsKeptToSomeNames) {
  FakeTrainer fake;
  fake.run = [](int, Json& run) { run["match"] = "bias"; };
  fake.hide = [](int, std::int64_t, const std::string&, const PieceSpec& piece) {
    return piece.name != "w.bias";
  };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::inconclusive);
  EXPECT_NE(verdict.reason.find("kept to tensors that match \"bias\""), std::string::npos)
      << verdict.reason;
  fake.run = [](int, Json& run) { run["match"] = ""; };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail) << "kept to none: all should be there";
}

TEST_F(OptimizerBytes, FailWhenARankHoldsWhatItDoesNotOwn) {
  FakeTrainer fake;
  fake.memory = [](int rank, std::int64_t, Json& event) {
    if (rank == 1) event["bytes"]["optimizer"] = 12 * 2405;
  };
  const Verdict verdict = judge(fake);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("rank 1 holds 28860"), std::string::npos) << verdict.reason;
}

TEST_F(OptimizerBytes, FailOnASingleElementTooMany) {
  FakeTrainer fake;
  fake.memory = [](int rank, std::int64_t, Json& event) {
    if (rank == 0) event["bytes"]["optimizer"] = event["bytes"]["optimizer"].get<int>() + 12;
  };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
}

TEST_F(OptimizerBytes, FailWhenTheyGrow) {
  FakeTrainer fake;
  fake.memory = [](int, std::int64_t step, Json& event) {
    if (step == 3) event["bytes"]["optimizer"] = event["bytes"]["optimizer"].get<int>() + 1;
  };
  EXPECT_EQ(judge(fake).outcome, Outcome::fail);
}

TEST_F(OptimizerBytes, AreInconclusiveWithoutMemoryLayoutOrParameters) {
  FakeTrainer fake;
  fake.memory = [](int, std::int64_t, Json& event) { event["bytes"].erase("optimizer"); };
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
  fake = {};
  fake.run = [](int, Json& run) { run.erase("layout"); };
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
  fake = {};
  fake.digest = false;
  fake.capture = {};
  EXPECT_EQ(judge(fake).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof

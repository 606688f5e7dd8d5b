// ctest: invariant
#include <gtest/gtest.h>

#include "invariants/fake_trace.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

class Cover : public ::testing::Test {
 protected:
  Trace write(const FakeTrainer& fake) {
    return fake.write(folder_.file("trace" + std::to_string(next_++)));
  }
  TempFolder folder_;
  int next_ = 0;
};

// Changes one element of what one rank writes.
FakeTrainer falsified(int rank, std::int64_t step, const std::string& what, std::size_t index) {
  FakeTrainer fake;
  fake.tensor = [=](int r, std::int64_t s, const std::string& w, std::vector<float>& values) {
    if (r == rank && s == step && w == what) values[index] = std::nextafter(values[index], 9.0f);
  };
  return fake;
}

TEST_F(Cover, PassesOnCleanRuns) {
  for (const int world : {1, 2, 3}) {
    for (const bool digest : {true, false}) {
      FakeTrainer fake;
      fake.world = world;
      fake.digest = digest;
      const Verdict verdict = check_cover(write(fake));
      EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
    }
  }
}

TEST_F(Cover, FailsOnAHoleInAShardedMoment) {
  FakeTrainer fake;
  fake.hide = [](int rank, std::int64_t step, const std::string& what, const PieceSpec& piece) {
    return rank == 1 && step == 2 && what == "exp_avg_sq" && piece.piece == 1;
  };
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->tensor, "w.weight/exp_avg_sq");
  EXPECT_EQ(verdict.difference->step, 2);
}

TEST_F(Cover, FailsOnAMasterThatIsMissingWhereOthersAreTraced) {
  FakeTrainer fake;
  fake.hide = [](int, std::int64_t step, const std::string& what, const PieceSpec& piece) {
    return step == 2 && what == "master" && piece.name == "w.bias";
  };
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->tensor, "w.bias/master");
  EXPECT_EQ(verdict.difference->step, 2);
  fake.hide = [](int, std::int64_t, const std::string& what, const PieceSpec&) {
    return what == "master";
  };
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::pass) << "a trainer that keeps none";
}

TEST_F(Cover, FailsOnAParameterThatAppearsLater) {
  FakeTrainer fake;
  fake.hide = [](int, std::int64_t step, const std::string&, const PieceSpec& piece) {
    return step < 2 && piece.name == "w.bias";
  };
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference) << verdict.reason;
  EXPECT_EQ(verdict.difference->tensor, "w.bias");
  EXPECT_EQ(verdict.difference->step, 2);
}

TEST_F(Cover, IsOpenWhereSomeNamesAloneWereKept) {
  FakeTrainer fake;
  fake.hide = [](int, std::int64_t, const std::string& what, const PieceSpec& piece) {
    return what == "exp_avg" && piece.name == "w.bias";
  };
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::fail);
  fake.run = [](int, Json& run) { run["match"] = "weight|sq"; };
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::inconclusive);
}

TEST_F(Cover, FailsOnAParameterThatDisappears) {
  FakeTrainer fake;
  fake.hide = [](int, std::int64_t step, const std::string& what, const PieceSpec& piece) {
    return step == 1 && what == "param" && piece.name == "w.bias";
  };
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_NE(verdict.reason.find("w.bias"), std::string::npos);
}

// Leaves something of a parameter out at one step, on every rank.
FakeTrainer without(std::int64_t step, const std::string& what, const std::string& name) {
  FakeTrainer fake;
  fake.hide = [=](int, std::int64_t s, const std::string& part, const PieceSpec& piece) {
    return s == step && part == what && (name.empty() || piece.name == name);
  };
  return fake;
}

TEST_F(Cover, FailsOnAParameterWithoutGradientOrMomentAtAStep) {
  for (const std::string what : {"param", "grad", "exp_avg", "exp_avg_sq"}) {
    for (const std::string name : {"w.bias", "w.weight", ""}) {
      for (const bool digest : {true, false}) {
        FakeTrainer fake = without(2, what, name);
        fake.digest = digest;
        if (!digest && name.empty()) continue;  // may not have been captured
        const Verdict verdict = check_cover(write(fake));
        EXPECT_EQ(verdict.outcome, Outcome::fail) << what << " " << name;
        ASSERT_TRUE(verdict.difference);
        EXPECT_EQ(verdict.difference->step, 2);
        const std::string tensor = name.empty() ? "w.bias" : name;
        EXPECT_EQ(verdict.difference->tensor, tensor + (what.starts_with("exp") ? "/" + what : ""));
      }
    }
  }
}

TEST_F(Cover, WhatWasNotCapturedLeavesAForeignTraceOpen) {
  for (const std::string what : {"param", "grad", "exp_avg", "exp_avg_sq"}) {
    FakeTrainer fake = without(2, what, "");
    fake.run = [](int, Json& run) { run.erase("tensors"); };
    const Verdict verdict = check_cover(write(fake));
    EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << what;
    EXPECT_NE(verdict.reason.find("at step 2"), std::string::npos) << verdict.reason;
  }
  FakeTrainer fake;
  fake.digest = false;
  fake.capture = {-1, 0, 2, 3};
  const Verdict some = check_cover(write(fake));
  EXPECT_EQ(some.outcome, Outcome::inconclusive);
  EXPECT_EQ(some.reason, "no param was traced at step 1");
  // What is wrong at a captured step is wrong all the same.
  fake.hide = without(3, "exp_avg", "w.bias").hide;
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::fail);
}

TEST_F(Cover, FailsOnABoxThatChangesItsNumber) {
  Trace trace = write({});
  for (TensorRecord& record : trace.ranks[1].tensors) {
    if (record.step == 2 && record.what == "grad" && record.place.piece == 1) {
      record.place.piece = 0;
    }
  }
  const Verdict verdict = check_cover(trace);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.reason, "w.weight: one box is piece 1 and piece 0");
  // A trace that numbers nothing contradicts nothing.
  for (RankTrace& rank : trace.ranks) {
    for (TensorRecord& record : rank.tensors) record.place.piece = 0;
  }
  EXPECT_EQ(check_cover(trace).outcome, Outcome::pass);
}

TEST_F(Cover, AFrozenParameterNeedsItsValueAlone) {
  FakeTrainer fake;
  fake.run = [](int, Json& run) { run["frozen"] = Json{"w.bias"}; };
  fake.hide = [](int, std::int64_t, const std::string& part, const PieceSpec& piece) {
    return part != "param" && piece.name == "w.bias";
  };
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  fake.run = nullptr;
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::fail);
}

TEST_F(Cover, NamesTheElementWhereReplicasDiffer) {
  const FakeTrainer fake = falsified(1, 2, "param", 1207);
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->step, 2);
  EXPECT_EQ(verdict.difference->rank, 1);
  EXPECT_EQ(verdict.difference->left.size(), 8u);
  EXPECT_NE(verdict.difference->left, verdict.difference->right);
  const PieceTable table = fake.table();
  const int piece = table.index(verdict.difference->tensor, verdict.difference->piece);
  EXPECT_EQ(table.range(piece).lo + verdict.difference->element, 1207);
}

TEST_F(Cover, SeesADifferenceInDigestsAlone) {
  FakeTrainer fake = falsified(1, 2, "param", 3);
  fake.capture = {};
  const Verdict verdict = check_cover(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->element, -1);
}

TEST_F(Cover, IsInconclusiveWithoutTensors) {
  FakeTrainer fake;
  fake.digest = false;
  fake.capture = {};
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::inconclusive);
  fake.capture = {-1};  // parameters alone
  EXPECT_EQ(check_cover(write(fake)).outcome, Outcome::inconclusive);
}

using Replicas = Cover;

TEST_F(Replicas, PassOnCleanRuns) {
  for (const int world : {1, 2, 4}) {
    FakeTrainer fake;
    fake.world = world;
    fake.capture = {};
    const Verdict verdict = check_replicas(write(fake));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  }
}

TEST_F(Replicas, FailOnOneBitOfOneParameter) {
  const Verdict verdict = check_replicas(write(falsified(1, 3, "param", 0)));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->step, 3);
  EXPECT_EQ(verdict.difference->rank, 1);
  EXPECT_GE(verdict.difference->element, 0);
  EXPECT_EQ(verdict.difference->left.size(), 8u);
}

TEST_F(Replicas, FailOnOneBitOfANorm) {
  FakeTrainer fake;
  fake.step = [](int rank, StepRecord& record) {
    if (rank == 1 && record.step == 1) record.grad_norm = std::nextafter(record.grad_norm, 1e9);
  };
  const Verdict verdict = check_replicas(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference);
  EXPECT_EQ(verdict.difference->phase, "grad_norm");
  EXPECT_EQ(verdict.difference->rank, 1);
}

TEST_F(Replicas, TensorRanksHaveOnlyWholeTensorsInCommon) {
  FakeTrainer fake;
  fake.world = 4;
  fake.hide = [](int rank, std::int64_t, const std::string&, const PieceSpec& piece) {
    return piece.pieces > 1 && piece.piece != rank % 2;
  };
  const Verdict verdict = check_replicas(write(fake));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  fake.hide = [](int rank, std::int64_t step, const std::string&, const PieceSpec& piece) {
    return piece.pieces > 1 && (piece.piece != rank % 2 || (rank == 3 && step == 1));
  };
  EXPECT_EQ(check_replicas(write(fake)).outcome, Outcome::fail);
}

// Without copies: legal where the layout says so, and its scalars are compared all the same.
TEST_F(Replicas, StagesOfAPipelineHaveNoParameterInCommon) {
  FakeTrainer fake;
  fake.hide = [](int rank, std::int64_t, const std::string&, const PieceSpec& piece) {
    return (piece.name == "w.bias") != (rank == 1);
  };
  EXPECT_EQ(check_replicas(write(fake)).outcome, Outcome::inconclusive) << "dp2 has copies";
  const auto claim = [&](const char* layout) {
    fake.run = [=](int rank, Json& facts) {
      facts["layout"] = layout;
      facts["coords"] = Json{{"pp", rank}};
    };
    return check_replicas(write(fake));
  };
  EXPECT_EQ(claim("pp2-zb").outcome, Outcome::pass);
  EXPECT_EQ(claim("tp2").outcome, Outcome::inconclusive);
  EXPECT_EQ(claim("stages: 2").outcome, Outcome::inconclusive);
  fake.step = [](int rank, StepRecord& record) {
    if (rank == 1 && record.step == 1) record.lr = 0.02;
  };
  EXPECT_EQ(claim("pp2").outcome, Outcome::fail);
}

TEST_F(Replicas, FailWhenARankLeavesAParameterOut) {
  FakeTrainer fake;
  fake.hide = [](int rank, std::int64_t step, const std::string& what, const PieceSpec& piece) {
    return rank == 1 && step == 1 && what == "param" && piece.name == "w.bias";
  };
  EXPECT_EQ(check_replicas(write(fake)).outcome, Outcome::fail);
}

TEST_F(Replicas, AreInconclusiveWithoutDigests) {
  FakeTrainer fake;
  fake.digest = false;
  EXPECT_EQ(check_replicas(write(fake)).outcome, Outcome::inconclusive);
  Trace trace = write({});
  trace.ranks.pop_back();
  EXPECT_EQ(check_replicas(trace).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof

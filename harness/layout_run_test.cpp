// ctest: invariant timeout=120 processors=2
// What a row of the table of layouts says: equal only where everything was compared, a difference
// with its address and a line that replays it, an Error as a failed row. In memory, on threads.
#include "harness/layout_run.h"

#include <gtest/gtest.h>

#include <set>

#include "base/temp_folder.h"
#include "harness/layout_list.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr int steps = 3;

Config shallow(const std::string& layout) {
  Config config = case_config(CaseKind::shallow);
  config.training.steps = steps;
  config.run.layout = layout;
  return config;
}

const Trace& reference() {
  static const Trace trace = traced_in_memory(shallow("dp1"));
  return trace;
}

TEST(LayoutRun, TheCasesAreOnesInWhichMistakesWouldShow) {
  for (const CaseKind kind : case_kinds) {
    SCOPED_TRACE(name(kind));
    Config config = case_config(kind);
    config.training.steps = 5;
    const Trace trace = traced_in_memory(config);
    ASSERT_EQ(trace.ranks.size(), 1u);
    const std::vector<StepRecord>& records = trace.ranks[0].steps;
    ASSERT_EQ(records.size(), 5u);
    std::set<std::int64_t> tokens;
    for (const StepRecord& record : records) {
      tokens.insert(record.tokens);
      EXPECT_LT(record.extra.at("clip_factor").get<double>(), 1) << "the clip is active";
      EXPECT_LT(record.tokens, config.training.global_batch * config.model.sequence)
          << "some targets are ignored";
    }
    EXPECT_GT(tokens.size(), 1u) << "their number differs from step to step";
  }
}

TEST(LayoutRun, AnEqualLayoutPassesAndLeavesNoFiles) {
  const TempFolder folder;
  LayoutProver prover(folder.path(), false, nullptr);
  for (const char* layout : {"dp2.tp2.zero1", "cp2-ulysses"}) {
    const LayoutProof proof = prover.prove(shallow(layout), layout);
    EXPECT_EQ(proof.verdict.outcome, Outcome::pass) << proof.verdict.reason;
    EXPECT_GT(proof.bytes_sent.value_or(0), 0);
    EXPECT_EQ(proof.verdict.replay, "");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(LayoutRun, KeepsTracesWhereAsked) {
  const TempFolder folder;
  LayoutProver prover(folder.path(), true, nullptr);
  const LayoutProof proof = prover.prove(shallow("tp2"), "000-tp2");
  EXPECT_EQ(proof.verdict.outcome, Outcome::pass) << proof.verdict.reason;
  const Verdict verdict =
      check_layout(read_trace(folder.file("reference-0")), read_trace(folder.file("000-tp2")));
  EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
}

// The law's counterproof: another Case gives other bits, and the row says so.
TEST(LayoutRun, AnotherSeedIsSeen) {
  Config config = shallow("tp2.cp2");
  config.training.seed = 2;
  const Verdict verdict = judge_layout(reference(), traced_in_memory(config), steps);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_EQ(verdict.check, "layout");
  EXPECT_TRUE(verdict.difference.has_value());
}

TEST(LayoutRun, OneBitOfOneTensorIsSeen) {
  Trace trace = traced_in_memory(shallow("dp2"));
  std::string& digest = trace.ranks[1].tensors.back().blocks.back();
  digest[0] = digest[0] == '0' ? '1' : '0';
  const Verdict verdict = judge_layout(reference(), trace, steps);
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  ASSERT_TRUE(verdict.difference.has_value());
  EXPECT_EQ(verdict.difference->tensor, trace.ranks[1].tensors.back().place.name);
}

TEST(LayoutRun, NothingComparedIsNeverEqual) {
  const Trace whole = traced_in_memory(shallow("dp2"));
  const auto without = [](Trace trace, const std::string& what) {
    for (RankTrace& rank : trace.ranks) {
      std::erase_if(rank.tensors, [&](const TensorRecord& record) { return record.what == what; });
    }
    return trace;
  };
  for (const char* what : {"grad", "param", "moment"}) {
    EXPECT_NE(judge_layout(without(reference(), what), without(whole, what), steps).outcome,
              Outcome::pass)
        << what;
  }
  EXPECT_EQ(judge_layout({}, {}, steps).outcome, Outcome::inconclusive);
  EXPECT_EQ(judge_layout(reference(), {}, steps).outcome, Outcome::inconclusive);
  EXPECT_NE(judge_layout(reference(), whole, steps + 1).outcome, Outcome::pass);
}

TEST(LayoutRun, AnErrorIsAFailedRowThatCanBeReplayed) {
  Config config = shallow("dp2");
  config.data.kind = "tokens";
  config.data.path = "/nowhere.bin";
  const TempFolder folder;
  const LayoutProof proof = LayoutProver(folder.path(), false, nullptr).prove(config, "dp2");
  EXPECT_EQ(proof.verdict.outcome, Outcome::fail);
  EXPECT_NE(proof.verdict.reason.find("/nowhere.bin"), std::string::npos) << proof.verdict.reason;
  const std::string& line = proof.verdict.replay;
  ASSERT_TRUE(line.starts_with("shardproof replay '")) << line;
  const std::string run = line.substr(19, line.size() - 20);
  EXPECT_EQ(parse_run_line(run).run.layout, "dp2");
  EXPECT_EQ(parse_run_line(run).training.steps, 4) << "fewer cannot be cut in two";
}

class NativeRow : public testing::Test {
 protected:
  static Config config(int seed = 1) {
    Config out = shallow("dp2");
    out.numerics.reduction = "native";
    out.training.seed = seed;
    return out;
  }
  Traces runs(int seed) {
    return native_runs(config(seed), folder_.file("runs-" + std::to_string(seed)), nullptr).value();
  }
  const TempFolder folder_;
};

TEST_F(NativeRow, IsJudgedByItsRuleAndLeavesNoFiles) {
  const TempFolder folder;
  const LayoutProof proof = LayoutProver(folder.path(), false, nullptr).prove(config(), "dp2");
  EXPECT_EQ(proof.verdict.outcome, Outcome::pass) << proof.verdict.reason;
  EXPECT_EQ(proof.verdict.check, "native layout");
  EXPECT_EQ(rule_of(proof.config), "native layout");
  EXPECT_GT(proof.bytes_sent.value_or(0), 0);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Each side of the rule from another seed's run: seen, by its own name.
TEST_F(NativeRow, AnotherRunsTracesAreSeen) {
  const Traces clean = runs(1), other = runs(2);
  EXPECT_EQ(judge_native(config(), clean).outcome, Outcome::pass);
  const auto with = [&](const std::string& leg) {
    Traces out = clean;
    out[leg] = other.at(leg);
    return judge_native(config(), out);
  };
  for (const char* leg : {"main", "float64"}) {
    EXPECT_EQ(with(leg).outcome, Outcome::fail) << leg;
    EXPECT_EQ(with(leg).check, "native layout") << leg;
  }
  EXPECT_EQ(with("repeat").outcome, Outcome::fail);
  EXPECT_EQ(with("repeat").check, "repeat");
  Traces without = clean;
  without.erase("repeat");
  EXPECT_EQ(judge_native(config(), without).outcome, Outcome::inconclusive);
  EXPECT_NE(judge_native(config(), {}).outcome, Outcome::pass);
}

// A rank without micro-batches takes part in the exchanges of its tensor and context group.
TEST(LayoutRun, MoreDataRanksThanMicroBatches) {
  for (const char* layout : {"dp4.tp2.zero1", "dp5", "dp4.pp2-zb"}) {
    SCOPED_TRACE(layout);
    Config config = shallow("dp1");
    config.training.global_batch = 6;
    const Trace alone = traced_in_memory(config);
    config.run.layout = layout;
    const Verdict verdict = judge_layout(alone, traced_in_memory(config), steps);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << verdict.reason;
  }
}

}  // namespace
}  // namespace shardproof

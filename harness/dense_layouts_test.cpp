// ctest: invariant timeout=300 processors=2
// The layout law for dense layouts: tensor, sequence and context parallelism, alone and together
// with data parallelism and ZeRO, up to 8 ranks. One Case with dropout, label smoothing, ignored
// targets, an active clip, a vocabulary that does not divide and uneven shares: the same bits as
// one rank in loss, gradient norm, gradients, parameters and moments at every step, as the traces
// say; what a rank holds of the optimizer state; the end of a resumed run.
#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder.h"
#include "harness/child.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

constexpr int steps = 4;

Config dense_case(const std::string& layout, const std::string& backend) {
  Config config = small_case(layout, steps);
  config.model.layers = 2;
  config.model.heads = 4;
  config.model.vocabulary = 61;
  config.model.dropout = 0.1;
  config.model.label_smoothing = 0.1;
  config.data.ignored = 0.2;
  config.training.global_batch = 12;
  config.training.clip = 0.5;
  config.numerics.tensor_pieces = 4;
  config.numerics.sequence_pieces = 4;
  config.run.backend = backend;
  return config;
}

// By the command, so that all legs run the same program.
Trace run_traced(std::vector<std::string> arguments, const TempFolder& folder) {
  arguments.insert(arguments.begin(), SHARDPROOF_COMMAND);
  arguments.insert(arguments.end(), {"--trace", folder.file("trace")});
  const ChildResult child = run_child(arguments, std::chrono::seconds(60));
  EXPECT_EQ(child.exit_code, 0) << child.output;
  return read_trace(folder.file("trace"));
}

Trace run_traced(const Config& config, const TempFolder& folder) {
  std::ofstream(folder.file("case.toml")) << to_toml(config);
  return run_traced({"train", folder.file("case.toml")}, folder);
}

void expect_pass(const Verdict& verdict) {
  EXPECT_EQ(verdict.outcome, Outcome::pass)
      << verdict.check << ": " << verdict.reason
      << (verdict.difference ? " " + verdict.difference->print() : "");
}

class DenseLayouts : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    reference_ = new Trace(run_traced(dense_case("dp1", "threads"), *folder_));
  }
  static void TearDownTestSuite() {
    delete reference_;
    delete folder_;
  }

  void expect_equal(const std::string& layout, const std::string& backend) {
    SCOPED_TRACE(layout + " on " + backend);
    const TempFolder folder;
    const Trace trace = run_traced(dense_case(layout, backend), folder);
    expect_pass(check_live(trace, steps));
    expect_pass(check_cover(trace));
    expect_pass(check_replicas(trace));
    expect_pass(check_data(trace));
    expect_pass(check_optimizer_bytes(trace));
    expect_pass(check_layout(*reference_, trace));
    EXPECT_EQ(trajectory_digest(trace), trajectory_digest(*reference_));
  }

  static TempFolder* folder_;
  static Trace* reference_;
};

TempFolder* DenseLayouts::folder_ = nullptr;
Trace* DenseLayouts::reference_ = nullptr;

TEST_F(DenseLayouts, TheCaseIsOneInWhichMistakesWouldShow) {
  for (const RankTrace& rank : reference_->ranks) {
    ASSERT_EQ(rank.steps.size(), static_cast<std::size_t>(steps));
    for (const StepRecord& record : rank.steps) {
      EXPECT_LT(record.extra.at("clip_factor").get<double>(), 1) << "the clip is active";
      EXPECT_LT(record.tokens, 12 * 8) << "some targets are ignored";
    }
    EXPECT_NE(rank.steps[0].tokens, rank.steps[1].tokens);
  }
}

TEST_F(DenseLayouts, TensorAndSequenceParallel) {
  for (const char* layout : {"tp2", "tp3", "tp4", "tp2.zero1", "tp2.sp", "tp3.sp", "tp4.sp"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(DenseLayouts, ContextParallel) {
  for (const char* layout :
       {"cp2", "cp3", "cp4", "cp2-zigzag", "cp2.zero1", "cp3.zero1", "cp2-zigzag.zero1"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(DenseLayouts, AllToAllContextParallel) {
  for (const char* layout :
       {"cp2-ulysses", "cp3-ulysses", "cp4-ulysses", "cp2-ulysses.zero1", "tp2.cp2-ulysses",
        "tp2.sp.cp2-ulysses", "dp2.tp2.sp.cp2-ulysses.zero1", "dp2.cp4-ulysses.zero1"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(DenseLayouts, WithDataParallelismAndZero) {
  for (const char* layout :
       {"dp2.tp2", "dp2.tp2.zero1", "dp3.tp2.sp.zero1", "dp4.tp2.zero1", "dp2.tp4.sp", "dp2.cp2",
        "dp4.cp2.zero1", "dp2.cp4-ring.zero1", "dp4.cp2-zigzag.zero1", "dp2.tp3.zero1"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(DenseLayouts, AllAxesTogether) {
  for (const char* layout :
       {"tp2.cp2", "tp2.sp.cp2", "tp2.sp.cp2-zigzag.zero1", "tp4.cp2.zero1", "dp2.tp2.cp2",
        "dp2.tp2.sp.cp2.zero1", "dp2.tp2.sp.cp2-zigzag.zero1", "tp3.cp2.zero1"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(DenseLayouts, MpiRanks) {
  for (const char* layout :
       {"dp2.tp2.zero1", "tp2.sp.cp2.zero1", "dp2.cp2-zigzag", "dp2.cp2-ulysses"}) {
    expect_equal(layout, "mpi");
  }
}

// A rank without micro-batches takes part in the exchanges of its tensor and context group.
TEST_F(DenseLayouts, MoreDataRanksThanMicroBatches) {
  Config config = dense_case("dp1", "threads");
  config.training.global_batch = 6;
  const TempFolder reference, folder;
  const Trace alone = run_traced(config, reference);
  config.run.layout = "dp4.tp2.zero1";
  const Trace trace = run_traced(config, folder);
  expect_pass(check_layout(alone, trace));
  expect_pass(check_optimizer_bytes(trace));
}

TEST_F(DenseLayouts, AResumedRunEndsWithTheSameBits) {
  for (const char* layout : {"dp2.tp2.zero1", "tp3.cp2", "tp2.sp.cp2-zigzag.zero1"}) {
    SCOPED_TRACE(layout);
    Config config = dense_case(layout, "threads");
    const TempFolder saved, resumed;
    config.checkpoint.directory = saved.file("checkpoints");
    config.checkpoint.every = 2;
    const Trace uncut = run_traced(config, saved);
    expect_pass(check_layout(*reference_, uncut));
    expect_pass(check_resume(
        uncut,
        run_traced(std::vector<std::string>{"resume", config.checkpoint.directory, "step-00000002"},
                   resumed),
        2));
  }
}

// The law's counterproof: another Case gives other bits, and the check says so.
TEST_F(DenseLayouts, AnotherSeedIsSeen) {
  const TempFolder folder;
  Config config = dense_case("tp2.cp2", "threads");
  config.training.seed = 2;
  const Verdict verdict = check_layout(*reference_, run_traced(config, folder));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_TRUE(verdict.difference.has_value());
}

}  // namespace
}  // namespace shardproof

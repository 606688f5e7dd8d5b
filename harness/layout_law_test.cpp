// ctest: invariant timeout=300 processors=2
// The layout law for data parallelism: one Case with 12 micro-batches, 100 steps, ranks 1, 2, 3, 4,
// 6 with ZeRO-0 and ZeRO-1: the same bits in loss, gradient norm, gradients, parameters and moments
// at every step, as the traces say.
#include <gtest/gtest.h>

#include <fstream>

#include "base/temp_folder.h"
#include "harness/child.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

constexpr int steps = 100;

// By the command, so that all legs run the same program.
Trace run_traced(Config config, const std::string& backend, const TempFolder& folder) {
  config.run.backend = backend;
  std::ofstream(folder.file("case.toml")) << to_toml(config);
  const ChildResult child = run_child(
      {SHARDPROOF_COMMAND, "train", folder.file("case.toml"), "--trace", folder.file("trace")},
      std::chrono::seconds(100));
  EXPECT_EQ(child.exit_code, 0) << child.output;
  return read_trace(folder.file("trace"));
}

class LayoutLaw : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = new TempFolder;
    reference_ = new Trace(run_traced(small_case("dp1", steps), "threads", *folder_));
  }
  static void TearDownTestSuite() {
    delete reference_;
    delete folder_;
  }

  void expect_equal(const std::string& layout, const std::string& backend) {
    SCOPED_TRACE(layout + " on " + backend);
    const TempFolder folder;
    const Trace trace = run_traced(small_case(layout, steps), backend, folder);
    const Verdict live = check_live(trace, steps);
    EXPECT_EQ(live.outcome, Outcome::pass) << live.reason;
    const Verdict replicas = check_replicas(trace);
    EXPECT_EQ(replicas.outcome, Outcome::pass) << replicas.reason;
    const Verdict verdict = check_layout(*reference_, trace);
    EXPECT_EQ(verdict.outcome, Outcome::pass)
        << verdict.reason << (verdict.difference ? " " + verdict.difference->print() : "");
    EXPECT_EQ(trajectory_digest(trace), trajectory_digest(*reference_));
  }

  static TempFolder* folder_;
  static Trace* reference_;
};

TempFolder* LayoutLaw::folder_ = nullptr;
Trace* LayoutLaw::reference_ = nullptr;

TEST_F(LayoutLaw, ThreadRanks) {
  for (const char* layout : {"dp2", "dp3", "dp4", "dp6", "dp1.zero1", "dp2.zero1", "dp3.zero1",
                             "dp4.zero1", "dp6.zero1"}) {
    expect_equal(layout, "threads");
  }
}

TEST_F(LayoutLaw, MpiRanks) {
  for (const char* layout : {"dp1", "dp2", "dp3", "dp4", "dp6", "dp1.zero1", "dp2.zero1",
                             "dp3.zero1", "dp4.zero1", "dp6.zero1"}) {
    expect_equal(layout, "mpi");
  }
}

// The law's counterproof: another Case gives other bits, and the check says so.
TEST_F(LayoutLaw, AnotherSeedIsSeen) {
  const TempFolder folder;
  Config config = small_case("dp2.zero1", steps);
  config.training.seed = 2;
  const Verdict verdict = check_layout(*reference_, run_traced(config, "threads", folder));
  EXPECT_EQ(verdict.outcome, Outcome::fail);
  EXPECT_TRUE(verdict.difference.has_value());
}

// Context ranks with different numbers of sequence pieces: the tied head is summed over them while
// its weight is gathered again, in one order on all of them. (It was not: a deadlock, with gpipe.)
TEST(LayoutLawOfUnevenPieces, ATiedHeadIsGatheredBeforeItIsSummed) {
  const auto run = [](const std::string& layout) {
    Config config = small_case(layout, 4);
    config.model.layers = 2;
    config.model.sequence = 12;
    config.model.tied = true;
    config.numerics.sequence_pieces = 4;
    config.run.deadline = 20;
    const TempFolder folder;
    return run_traced(config, "threads", folder);
  };
  const Trace alone = run("dp1");
  for (const char* layout : {"cp3.pp2-gpipe.zero3", "cp3.pp2-zb.zero3", "cp3.pp2-gpipe.zero2"}) {
    const Verdict verdict = check_layout(alone, run(layout));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << layout << ": " << verdict.reason;
  }
}

}  // namespace
}  // namespace shardproof

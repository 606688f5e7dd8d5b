// ctest: invariant timeout=120 processors=2
// The resume law on dense layouts: fresh ranks that load a checkpoint, of their layout or of any
// other, walk to the end of the run that was never cut, bit for bit; and that run has the bits of
// one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "checkpoint/load.h"
#include "harness/layout_list.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr int steps = 5, cut = 2;

Trace run_traced(const Config& config, std::shared_ptr<Storage> storage,
                 std::optional<std::string> resume) {
  RunRequest request;
  request.config = config;
  request.storage = std::move(storage);
  request.resume = std::move(resume);
  return traced_in_memory(std::move(request));
}

void expect_pass(const Verdict& verdict) {
  EXPECT_EQ(verdict.outcome, Outcome::pass)
      << verdict.check << ": " << verdict.reason
      << (verdict.difference ? " " + verdict.difference->print() : "");
}

void expect_resumes(CaseKind kind, const std::vector<const char*>& layouts) {
  Config config = case_config(kind);
  config.training.steps = steps;
  const Trace alone = run_traced(config, nullptr, std::nullopt);
  config.checkpoint.every = cut;
  config.checkpoint.directory = "in memory";
  for (const char* layout : layouts) {
    SCOPED_TRACE(layout);
    config.run.layout = layout;
    const std::shared_ptr<Storage> storage = memory_storage();
    const Trace uncut = run_traced(config, storage, std::nullopt);
    expect_pass(check_layout(alone, uncut));
    expect_pass(check_resume(uncut, run_traced(config, storage, "step-00000002"), cut));
  }
}

TEST(LayoutResume, Shallow) {
  expect_resumes(CaseKind::shallow,
                 {"dp3.zero1", "dp4.zero2-shard2", "dp4.zero3", "dp4.zero3-shard2", "dp2.tp2.zero1",
                  "tp3.cp2", "cp2-ulysses.zero3", "dp2.tp2.sp.zero3", "tp2.sp.cp2-zigzag.zero1"});
}

TEST(LayoutResume, Stages) {
  expect_resumes(CaseKind::deep, {"pp2-zb", "pp4-int2.zero1", "dp2.pp2-int2.zero3",
                                  "dp2.tp2.pp2.zero1", "dp4.pp2.zero3-shard2", "cp2.pp2.zero2"});
}

TEST(LayoutResume, Odd) {
  expect_resumes(CaseKind::odd, {"dp3.zero3", "dp2.tp3.zero2", "cp3-zigzag.pp2"});
}

// Each layout saves, and each continues what every other saved.
void expect_reshards(CaseKind kind, const std::vector<const char*>& layouts) {
  Config config = case_config(kind);
  config.training.steps = steps;
  config.checkpoint.every = cut;
  config.checkpoint.directory = "in memory";
  for (const char* writer : layouts) {
    config.run.layout = writer;
    const std::shared_ptr<Storage> storage = memory_storage();
    const Trace uncut = run_traced(config, storage, std::nullopt);
    const Digest saved = read_manifest(*storage, "step-00000002").state_digest();
    for (const char* reader : layouts) {
      SCOPED_TRACE(fmt::format("{} continues {}", reader, writer));
      config.run.layout = reader;
      expect_pass(check_resume(uncut, run_traced(config, storage, "step-00000002"), cut));
    }
    EXPECT_EQ(read_manifest(*storage, "step-00000002").state_digest().hex(), saved.hex());
  }
}

TEST(LayoutReshard, EightSixFourThreeTwoAndOne) {
  expect_reshards(CaseKind::shallow, {"dp2.tp2.cp2.zero3", "dp3.tp2.sp.zero1", "dp4.zero3-shard2",
                                      "dp3.zero1", "cp2-zigzag", "dp1"});
}

TEST(LayoutReshard, StagesToOtherStagesAndNone) {
  expect_reshards(CaseKind::deep, {"dp2.pp4-int2.zero1", "dp2.pp2-zb.zero3", "dp1"});
}

}  // namespace
}  // namespace shardproof

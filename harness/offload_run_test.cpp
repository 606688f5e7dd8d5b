// ctest: invariant timeout=120 processors=2
// Offloading changes no bit: layouts of every ZeRO stage with state in host memory and in files
// against one rank without; checkpoints of the one resumed by the other; what a run says when its
// file cannot be made.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.h"
#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/layout_list.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr int steps = 4, cut = 2;

struct Away {
  const char* optimizer;
  const char* parameters;
};

// With the smallest window: many of them in a unit.
Config offloaded(Config config, const Away& away) {
  config.parallel.offload_optimizer = away.optimizer;
  config.parallel.offload_parameters = away.parameters;
  config.parallel.offload_window = 12288;
  return config;
}

Config case_of(CaseKind kind, const char* layout) {
  Config config = case_config(kind);
  config.training.steps = steps;
  config.run.layout = layout;
  return config;
}

Trace run_traced(const Config& config, std::shared_ptr<Storage> storage = nullptr,
                 std::optional<std::string> resume = std::nullopt) {
  RunRequest request;
  request.config = config;
  check(config);
  request.storage = std::move(storage);
  request.resume = std::move(resume);
  return traced_in_memory(std::move(request));
}

void expect_pass(const Verdict& verdict) {
  EXPECT_EQ(verdict.outcome, Outcome::pass)
      << verdict.check << ": " << verdict.reason
      << (verdict.difference ? " " + verdict.difference->print() : "");
}

void expect_same(CaseKind kind, const std::vector<std::pair<const char*, Away>>& rows) {
  const Trace alone = run_traced(case_of(kind, "dp1"));
  for (const auto& [layout, away] : rows) {
    SCOPED_TRACE(std::string(layout) + " " + away.optimizer + " " + away.parameters);
    expect_pass(judge_layout(alone, run_traced(offloaded(case_of(kind, layout), away)), steps));
  }
}

TEST(OffloadRun, EveryStageHasTheBitsOfOneRank) {
  expect_same(CaseKind::shallow, {{"dp1", {"file", "none"}},
                                  {"dp2", {"host", "none"}},
                                  {"dp2.zero1", {"host", "none"}},
                                  {"dp3.zero1", {"file", "none"}},
                                  {"dp4.zero1-shard2", {"file", "none"}},
                                  {"dp2.tp2.zero2", {"file", "none"}},
                                  {"dp4.zero3", {"host", "host"}},
                                  {"dp4.zero3", {"file", "file"}},
                                  {"dp4.zero3-shard2", {"none", "file"}},
                                  {"cp2.zero3", {"host", "file"}}});
}

TEST(OffloadRun, StagesWithTiedWeightsHaveTheBitsOfOneRank) {
  expect_same(CaseKind::deep, {{"dp2.pp2.zero1", {"host", "none"}},
                               {"dp2.pp2-int2.zero3", {"file", "host"}},
                               {"dp2.pp2-zb.zero2", {"file", "none"}}});
}

TEST(OffloadRun, UnitsThatStayWholeOrAreGatheredAheadHaveTheSameBits) {
  const Trace alone = run_traced(case_of(CaseKind::shallow, "dp1"));
  for (const bool reshard : {false, true}) {
    Config config = offloaded(case_of(CaseKind::shallow, "dp2.zero3"), {"file", "file"});
    config.parallel.reshard_after_forward = reshard;
    config.parallel.prefetch_forward = config.parallel.prefetch_backward = reshard ? 0 : 2;
    expect_pass(judge_layout(alone, run_traced(config), steps));
  }
}

// The backend's sums have the same bits on the same layout.
TEST(OffloadRun, NativeReductionHasTheBitsItHasWithout) {
  for (const char* layout : {"dp2", "dp2.zero1", "dp2.zero3"}) {
    SCOPED_TRACE(layout);
    Config config = case_of(CaseKind::shallow, layout);
    config.numerics.reduction = "native";
    const Trace plain = run_traced(config);
    const bool sharded = std::string_view(layout) == "dp2.zero3";
    for (const char* to : {"host", "file"}) {
      const Trace found = run_traced(offloaded(config, {to, sharded ? to : "none"}));
      expect_pass(check_repeat(plain, found));
      expect_pass(check_optimizer_bytes(found));
    }
  }
}

TEST(OffloadRun, ACheckpointIsOfThePresentWhereverTheStateIs) {
  for (const char* layout : {"dp2.tp2.zero1", "dp4.zero3"}) {
    const bool sharded = std::string_view(layout) == "dp4.zero3";
    Config plain = case_of(CaseKind::shallow, layout);
    plain.checkpoint.every = cut;
    plain.checkpoint.directory = "in memory";
    const Config host = offloaded(plain, {"host", sharded ? "file" : "none"});
    const Config file = offloaded(plain, {"file", sharded ? "host" : "none"});
    const std::shared_ptr<Storage> storage = memory_storage();
    const Trace uncut = run_traced(plain, storage);
    const auto expect_resumes = [&](const Config& as, const std::shared_ptr<Storage>& from) {
      SCOPED_TRACE(run_line(as));
      expect_pass(check_resume(uncut, run_traced(as, from, "step-00000002"), cut));
    };
    expect_resumes(host, storage);
    expect_resumes(file, storage);
    for (const Config& saving : {host, file}) {
      SCOPED_TRACE("saved by " + run_line(saving));
      const std::shared_ptr<Storage> saved = memory_storage();
      run_traced(saving, saved);
      expect_resumes(plain, saved);
      expect_resumes(saving, saved);
      Config elsewhere = plain;
      elsewhere.run.layout = "dp1";
      expect_resumes(elsewhere, saved);
    }
  }
}

TEST(OffloadRun, OneErrorNamesRankFileAndOperationAndNothingIsLeft) {
  const TempFolder folder;
  Config config = offloaded(case_of(CaseKind::shallow, "dp2.zero1"), {"file", "none"});
  config.parallel.offload_directory = folder.file("missing");
  expect_error(ErrorKind::bad_input,
               {"create", folder.file("missing") + "/shardproof-offload.rank_0000", "No such file",
                "(rank "},
               [&] { run_traced(config); });
  config.parallel.offload_directory = folder.path();
  run_traced(config);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Cuts the file of one rank, which has no name, as step 1 is about to use it.
class Cut : public Hooks {
 public:
  void phase(std::int64_t step, Phase phase, Plan&) override {
    if (step != 1 || phase != Phase::optimizer) return;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code closed;  // the listing's own descriptor
      const std::string target = std::filesystem::read_symlink(entry, closed).string();
      if (target.find("/shardproof-offload.rank_00001.") == std::string::npos) continue;
      ASSERT_EQ(::ftruncate(std::stoi(entry.path().filename()), 4096), 0);
    }
  }
};

TEST(OffloadRun, AFileThatIsCutDuringTheRunEndsIt) {
  const TempFolder folder;
  RunRequest request;
  request.config = offloaded(case_of(CaseKind::shallow, "dp2.zero1"), {"file", "none"});
  request.config.parallel.offload_directory = folder.path();
  request.hooks = [](int rank) -> std::unique_ptr<Hooks> {
    return rank == 1 ? std::make_unique<Cut>() : nullptr;
  };
  expect_error(ErrorKind::corrupt,
               {"read " + folder.path() + "/shardproof-offload.rank_00001.",
                "the file has 4096 bytes; expected", "(rank 1)"},
               [&] { run_on_threads(request); });
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

}  // namespace
}  // namespace shardproof

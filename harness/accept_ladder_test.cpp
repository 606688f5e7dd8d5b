// ctest: invariant timeout=180 processors=2 lock=mpi
// The ladder on the smallest Case: to the top, and a planted break on each rung. Without root the
// rung of two nodes is open, and so is the climb.
#include "harness/accept_ladder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/child.h"
#include "harness/ladder_rungs.h"
#include "harness/launcher.h"
#include "harness/two_nodes.h"

namespace shardproof {
namespace {

using Words = std::vector<std::string>;

const Words smallest = {"model.layers=1",          "model.width=16",        "model.heads=2",
                        "model.vocabulary=32",     "model.sequence=8",      "training.steps=4",
                        "training.global_batch=8", "training.micro_batch=2"};

bool has_two_nodes() {
  if (find_mpirun().empty()) return false;
  try {
    const TwoNodes nodes;
    return true;
  } catch (const Error&) {
    return false;
  }
}

Config smallest_case() {
  LadderOptions options;
  options.set = smallest;
  return ladder_case(options);
}

std::string fault_of(int rank) {
  return fmt::format("step:{}:1:clipped!flip_gradient", rank);
}

struct Screen {
  int exit_code = -1;
  std::string text;
  Json report;
};

class AcceptLadder : public testing::Test {
 protected:
  Screen command(const Words& arguments,
                 const std::map<std::string, std::string>& environment = {}) {
    const std::string out = folder_.file(fmt::format("report-{}", next_++));
    Words command{SHARDPROOF_COMMAND, "accept", "--ladder", "--out", out};
    for (const std::string& assignment : smallest) {
      command.insert(command.end(), {"--set", assignment});
    }
    command.insert(command.end(), arguments.begin(), arguments.end());
    const ChildResult child = run_child(command, std::chrono::seconds(100), environment);
    Screen screen{child.exit_code, child.output, nullptr};
    if (std::filesystem::exists(out + "/report.json")) {
      screen.report = parse_json(read(out + "/report.json"), out);
      junit_ = read(out + "/junit.xml");
    }
    return screen;
  }
  static std::string read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  LadderPlace place() {
    LadderPlace out{folder_.file(fmt::format("place-{}", next_++)), SHARDPROOF_COMMAND};
    std::filesystem::create_directories(out.out);
    return out;
  }
  // The words of a climb in which `number` has a fault that befalls a rank, and the others have
  // none; rungs in front of `first` are left out.
  Words words_with_fault(int number, int rank, int first = 1) {
    Config broken = smallest_case();
    broken.run.fault = fault_of(rank);
    std::vector<Rung> rungs = plan_rungs(smallest_case(), place());
    const auto at = static_cast<std::size_t>(number - 1);
    rungs[at] = plan_rungs(broken, place())[at];
    rungs.erase(rungs.begin(), rungs.begin() + first - 1);
    Words out;
    for (const ClimbedRung& rung : climb(rungs, {}).rungs) {
      out.emplace_back(word(rung));
      if (rung.verdict.outcome != Outcome::fail) continue;
      failed_ = rung.verdict;
      EXPECT_FALSE(rung.verdict.reason.empty());
    }
    return out;
  }
  TempFolder folder_;
  std::string junit_;
  Verdict failed_;
  int next_ = 0;
};

TEST_F(AcceptLadder, ClimbsToTheTop) {
  const bool rights = has_two_nodes();
  const Screen screen = command({});
  EXPECT_EQ(screen.exit_code, rights ? 0 : 3) << screen.text;
  ASSERT_EQ(screen.report.at("verdicts").size(), 6u) << screen.text;
  for (const Json& verdict : screen.report.at("verdicts")) {
    const std::string check = verdict.at("check");
    const bool open = check == "two nodes" && !rights;
    EXPECT_EQ(verdict.at("outcome"), open ? "inconclusive" : "pass") << screen.text;
    EXPECT_NE(screen.text.find(check), std::string::npos) << check;
    EXPECT_NE(junit_.find(check), std::string::npos) << check;
  }
  EXPECT_NE(screen.text.find(rights ? "the cable carried" : "not verified"), std::string::npos)
      << screen.text;
}

TEST_F(AcceptLadder, ALearningRateOfZeroStopsAtTheFirstRung) {
  const Screen screen = command({"--set", "optimizer.lr=0"});
  EXPECT_EQ(screen.exit_code, 1) << screen.text;
  const Json& verdicts = screen.report.at("verdicts");
  ASSERT_EQ(verdicts.size(), 6u);
  EXPECT_EQ(verdicts[0].at("outcome"), "fail");
  for (std::size_t i = 1; i < verdicts.size(); ++i) {
    EXPECT_EQ(verdicts[i].at("reason"), "not reached: \"one batch\" failed");
  }
  const std::string replay = verdicts[0].at("replay");
  EXPECT_NE(screen.text.find(replay), std::string::npos) << screen.text;
  const ChildResult again =
      run_child({"/bin/sh", "-c",
                 std::string(SHARDPROOF_COMMAND) + replay.substr(replay.find(' ')) + " --out " +
                     folder_.file("again")},
                std::chrono::seconds(60));
  EXPECT_EQ(again.exit_code, 1) << again.output;
  EXPECT_NE(again.output.find("FAIL  one batch"), std::string::npos) << again.output;
}

TEST_F(AcceptLadder, AGradientThatOneOfTwoRanksFlipsStopsAtTwoRanks) {
  EXPECT_EQ(words_with_fault(2, 1, 2),
            (Words{"fail", "not reached", "not reached", "not reached", "not reached"}));
  EXPECT_TRUE(failed_.replay.starts_with("shardproof replay '")) << failed_.replay;
  EXPECT_NE(failed_.replay.find("run.layout=dp2 "), std::string::npos) << failed_.replay;
}

TEST_F(AcceptLadder, ABreakOfTheFourthRankStopsAtTheLargerWorld) {
  EXPECT_EQ(words_with_fault(3, 3, 2),
            (Words{"pass", "fail", "not reached", "not reached", "not reached"}));
}

TEST_F(AcceptLadder, ABrokenShareStopsAtZero) {
  EXPECT_EQ(words_with_fault(4, 3, 4), (Words{"fail", "not reached", "not reached"}));
  EXPECT_NE(failed_.reason.find("dp4.zero1"), std::string::npos) << failed_.reason;
}

TEST_F(AcceptLadder, AGradientThatTheFarRankFlipsStopsAtTwoNodes) {
  if (!has_two_nodes()) GTEST_SKIP() << "two nodes need root, iproute2 and mpirun";
  EXPECT_EQ(words_with_fault(5, 1, 5), (Words{"fail", "not reached"}));
}

// A planted bug under which the loss still falls.
TEST_F(AcceptLadder, ASkippedAllGatherStopsAtZero) {
  const Screen screen =
      command({}, {{"LD_PRELOAD", SHARDPROOF_MUTANTS "/libmutant.skipped_all_gather.so"}});
  EXPECT_EQ(screen.exit_code, 1) << screen.text;
  Words outcomes;
  for (const Json& verdict : screen.report.at("verdicts")) outcomes.push_back(verdict["outcome"]);
  EXPECT_EQ(outcomes, (Words{"pass", "pass", "pass", "fail", "inconclusive", "inconclusive"}));
  EXPECT_NE(screen.text.find("FAIL  zero, precision  dp4.zero1"), std::string::npos) << screen.text;
  EXPECT_NE(screen.text.find("not reached"), std::string::npos) << screen.text;
}

TEST_F(AcceptLadder, AByteThatFlipsOnItsWayToTheDiskStopsAtFaults) {
  // The byte lies beyond the shards of the smallest Case.
  const Screen screen = command({"--rung", "6", "--set", "model.width=64"},
                                {{"LD_PRELOAD", SHARDPROOF_MUTANTS "/libmutant.flipped_byte.so"}});
  EXPECT_EQ(screen.exit_code, 1) << screen.text;
  EXPECT_NE(screen.text.find("FAIL  faults, recovery"), std::string::npos) << screen.text;
  EXPECT_NE(screen.text.find("replay"), std::string::npos) << screen.text;
}

TEST_F(AcceptLadder, WhereAProgramIsMissingTwoNodesAreNotVerified) {
  const Screen screen = command({"--rung", "5"}, {{"PATH", "/nonexistent"}});
  EXPECT_EQ(screen.exit_code, 3) << screen.text;
  EXPECT_NE(screen.text.find("not verified"), std::string::npos) << screen.text;
  EXPECT_EQ(screen.report.at("verdicts")[0].at("outcome"), "inconclusive");
}

// Whether a process has `word` on its command line.
bool runs(const std::string& word) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ostringstream line;
    line << std::ifstream(entry.path() / "cmdline").rdbuf();
    if (line.str().find(word) != std::string::npos) return true;
  }
  return false;
}

TEST_F(AcceptLadder, ACtrlCOverTwoNodesLeavesNothing) {
  if (!has_two_nodes()) GTEST_SKIP() << "two nodes need root, iproute2 and mpirun";
  const std::string out = folder_.file("stopped"), trace = out + "/legs/two-nodes/bits";
  Words command{SHARDPROOF_COMMAND, "accept", "--ladder", "--rung", "5", "--out", out};
  for (const std::string& assignment : smallest)
    command.insert(command.end(), {"--set", assignment});
  command.insert(command.end(), {"--set", "training.steps=400"});
  Child child(command, std::chrono::seconds(60));
  bool ended = false;
  while (!std::filesystem::exists(trace) && !ended)
    ended = child.ended(std::chrono::milliseconds(5));
  ASSERT_FALSE(ended) << child.result().output;
  EXPECT_TRUE(runs(trace));
  ASSERT_EQ(::kill(child.pid(), SIGINT), 0);
  ASSERT_TRUE(child.ended(std::chrono::seconds(30)));
  EXPECT_EQ(child.result().exit_code, 130) << child.result().output;
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (runs(trace) && !deadline.expired()) {
  }
  EXPECT_FALSE(runs(trace));
}

TEST_F(AcceptLadder, WhatTheRungsDecideIsRefusedBeforeAFolderIsMade) {
  const std::vector<std::pair<Words, std::string>> bad = {
      {{"--set", "run.layout=dp2"}, "run.layout is decided by"},
      {{"--set", "numerics.reduction=native"}, "numerics.reduction is decided by"},
      {{"--set", "checkpoint.every=2"}, "checkpoint.every is decided by"},
      {{"--set", "training.step=4"}, "training.step"},
      {{"--ranks", "2"}, "--ranks"},
      {{"--rung", "7"}, "--rung"},
  };
  for (const auto& [arguments, named] : bad) {
    const Screen screen = command(arguments);
    EXPECT_EQ(screen.exit_code, 2) << screen.text;
    EXPECT_NE(screen.text.find(named), std::string::npos) << screen.text;
    EXPECT_TRUE(screen.report.is_null());
  }
}

TEST_F(AcceptLadder, ExpectationsStandBeforeTheFirstStep) {
  const std::vector<Rung> rungs = plan_rungs(smallest_case(), place());
  ASSERT_EQ(rungs.size(), static_cast<std::size_t>(rung_count));
  for (const Rung& rung : rungs) EXPECT_FALSE(rung.compared.empty()) << rung.name;
  EXPECT_NE(rungs[2].compared.find("dp4, dp2.tp2, dp4.tp2"), std::string::npos)
      << rungs[2].compared;
  EXPECT_NE(rungs[3].compared.find("mixed precision"), std::string::npos);
}

}  // namespace
}  // namespace shardproof

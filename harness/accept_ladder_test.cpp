// ctest: invariant timeout=180 processors=2 lock=mpi
// The ladder on the smallest Case: to the top, and a planted break on each rung. Without root the
// rung of two nodes is open, and so is the climb.
#include "harness/accept_ladder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/child.h"
#include "harness/ladder_rungs.h"
#include "harness/launcher.h"
#include "harness/two_nodes.h"

namespace shardproof {
namespace {

const std::vector<std::string> smallest = {
    "model.layers=1",   "model.width=16",   "model.heads=2",           "model.vocabulary=32",
    "model.sequence=8", "training.steps=4", "training.global_batch=8", "training.micro_batch=2"};

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
  Screen command(std::vector<std::string> arguments) {
    const std::string out = folder_.file(fmt::format("report-{}", next_++));
    arguments.insert(arguments.begin(), {SHARDPROOF_COMMAND, "accept", "--ladder", "--out", out});
    for (const std::string& assignment : smallest) {
      arguments.insert(arguments.end(), {"--set", assignment});
    }
    const ChildResult child = run_child(arguments, std::chrono::seconds(100));
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
  std::vector<std::string> words_with_fault(int number, int rank, int first = 1) {
    Config broken = smallest_case();
    broken.run.fault = fault_of(rank);
    std::vector<Rung> rungs = plan_rungs(smallest_case(), place());
    const auto at = static_cast<std::size_t>(number - 1);
    rungs[at] = plan_rungs(broken, place())[at];
    rungs.erase(rungs.begin(), rungs.begin() + first - 1);
    std::vector<std::string> out;
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

using Words = std::vector<std::string>;

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
  EXPECT_NE(failed_.replay.find("shardproof replay 'run.layout=dp2"), std::string::npos)
      << failed_.replay;
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

TEST_F(AcceptLadder, AGuardThatIsOffStopsAtFaults) {
  const Screen screen = command({"--rung", "6", "--set", "guard.verify=false"});
  EXPECT_EQ(screen.exit_code, 1) << screen.text;
  EXPECT_NE(screen.text.find("fault dtype"), std::string::npos) << screen.text;
}

TEST_F(AcceptLadder, WithoutRightsTwoNodesAreNotVerified) {
  if (::geteuid() == 0) {
    // As another user: the command and its folder are there for all.
    const ChildResult child =
        run_child({"/usr/bin/env", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                   "/bin/sh", "-c", "test -x " SHARDPROOF_COMMAND},
                  std::chrono::seconds(10));
    if (child.exit_code != 0) GTEST_SKIP() << "nobody else may run the command here";
  }
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  std::string script =
      SHARDPROOF_COMMAND " accept --ladder --rung 5 --out " + folder_.file("unprivileged");
  for (const std::string& assignment : smallest) script += " --set " + assignment;
  std::vector<std::string> command{"/bin/sh", "-c", script};
  if (::geteuid() == 0) {
    command.insert(command.begin(),
                   {"/usr/bin/env", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"});
  }
  const ChildResult child = run_child(command, std::chrono::seconds(60));
  EXPECT_EQ(child.exit_code, 3) << child.output;
  EXPECT_NE(child.output.find("not verified"), std::string::npos) << child.output;
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

TEST_F(AcceptLadder, ALayoutThatTheCaseHasNoneOfIsOpen) {
  Config config = smallest_case();
  config.training.global_batch = config.training.micro_batch = 2;  // one micro-batch: no data ranks
  const Climb climbed = climb({plan_rungs(config, place())[1]}, {});
  EXPECT_EQ(word(climbed.rungs[0]), "not verified");
}

}  // namespace
}  // namespace shardproof

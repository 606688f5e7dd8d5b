// ctest: invariant timeout=240 processors=2
#include "harness/accept.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/accept_run.h"
#include "harness/child.h"

namespace shardproof {
namespace {

struct Outcomes {
  int exit_code = -1;
  std::string screen;
  Json report;
  std::set<std::string> not_passed;  // "corpus: check" by outcome
};

class Accept : public ::testing::Test {
 protected:
  static ChildResult command(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), SHARDPROOF_COMMAND);
    return run_child(arguments, std::chrono::seconds(200));
  }
  Outcomes run(std::vector<std::string> arguments) {
    const std::string out = folder_.file("report" + std::to_string(next_++));
    arguments.insert(arguments.end(), {"--out", out});
    const ChildResult child = command(arguments);
    Outcomes outcomes;
    outcomes.exit_code = child.exit_code;
    outcomes.screen = child.output;
    std::ostringstream text;
    text << std::ifstream(out + "/report.json").rdbuf();
    outcomes.report = parse_json(text.str(), out);
    for (const Json& verdict : outcomes.report.at("verdicts")) {
      if (verdict.at("outcome") == "pass") continue;
      outcomes.not_passed.insert(verdict.at("check").get<std::string>());
    }
    last_ = out;
    return outcomes;
  }
  TempFolder folder_;
  std::string last_;
  int next_ = 0;
};

// The command tests use a short replay; the full acceptance run is what ci/accept does.
TEST_F(Accept, TwoRunsOfOneCommandWriteTheSameReport) {
  const std::vector<std::string> arguments = {"replay", "training.steps=6 run.layout=dp2.zero1"};
  const Outcomes first = run(arguments);
  ASSERT_EQ(first.exit_code, 0) << first.screen;
  EXPECT_EQ(first.report.at("verdicts").size(), 11u);
  for (const char* file : {"expectations.json", "timing.json", "summary.md", "junit.xml",
                           "report.html", "legs/replay/main/trace/rank_00001.jsonl"}) {
    EXPECT_TRUE(std::filesystem::exists(last_ + "/" + file)) << file;
  }
  const Outcomes second = run(arguments);
  EXPECT_EQ(first.report.dump(), second.report.dump());
  EXPECT_EQ(first.report.dump().find(folder_.path()), std::string::npos);
}

TEST_F(Accept, ALearningRateOfZeroFailsTheLossVerdictsOfBothCorpora) {
  const Outcomes outcomes = run({"accept", "--set", "optimizer.lr=0"});
  EXPECT_EQ(outcomes.exit_code, 1) << outcomes.screen;
  EXPECT_EQ(outcomes.not_passed, (std::set<std::string>{"loss falls"}));
  int failed = 0;
  std::string replay;
  for (const Json& verdict : outcomes.report.at("verdicts")) {
    if (verdict.at("check") != "loss falls") continue;
    failed += verdict.at("outcome") == "fail";
    replay = verdict.at("replay");
  }
  EXPECT_EQ(failed, 2);
  // The replay line, as a shell would read it, shows the failure again.
  const ChildResult again =
      run_child({"/bin/sh", "-c",
                 std::string(SHARDPROOF_COMMAND) + replay.substr(replay.find(' ')) + " --out " +
                     folder_.file("again")},
                std::chrono::seconds(100));
  EXPECT_EQ(again.exit_code, 1) << again.output;
  EXPECT_NE(again.output.find("FAIL  loss falls"), std::string::npos);
}

TEST_F(Accept, ANativeRunIsJudgedByTheErrorModelAndRepeatsItsBits) {
  const Outcomes outcomes =
      run({"replay",
           "training.steps=6 run.layout=dp2.tp2 numerics.reduction=native model.dropout=0.1"});
  ASSERT_EQ(outcomes.exit_code, 0) << outcomes.screen;
  std::set<std::string> checks;
  for (const Json& verdict : outcomes.report.at("verdicts")) checks.insert(verdict.at("check"));
  EXPECT_EQ(checks,
            (std::set<std::string>{"live", "cover", "replicas", "native layout", "repeat", "data",
                                   "optimizer bytes", "optimizer", "checkpoint", "resume"}));
  EXPECT_NE(outcomes.screen.find("worst ratio "), std::string::npos) << outcomes.screen;
}

TEST_F(Accept, AReplayKillsWhatItsRunLineKills) {
  const Outcomes outcomes =
      run({"replay", "training.steps=6 run.layout=dp2.zero1 run.fault=1:4:reduced:kill"});
  EXPECT_EQ(outcomes.exit_code, 0) << outcomes.screen;
  EXPECT_EQ(outcomes.report.at("verdicts").size(), 13u);
}

TEST_F(Accept, AReplayKillsInASave) {
  const Outcomes outcomes =
      run({"replay", "training.steps=6 run.layout=dp2.zero1 run.fault=1:5:save:kill"});
  EXPECT_EQ(outcomes.exit_code, 0) << outcomes.screen;
  EXPECT_EQ(outcomes.report.at("verdicts").size(), 13u);
}

TEST_F(Accept, AnExistingFolderIsRefusedUntouched) {
  std::ofstream(folder_.file("mine")) << "precious";
  const ChildResult child = command({"accept", "--out", folder_.path()});
  EXPECT_EQ(child.exit_code, 2);
  EXPECT_NE(child.output.find(folder_.path()), std::string::npos) << child.output;
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1);
}

TEST_F(Accept, BadInputEndsBeforeAFolderIsMade) {
  const std::string out = folder_.file("never");
  std::ofstream(folder_.file("tiny.txt")) << "too short";
  const std::vector<std::pair<std::vector<std::string>, std::string>> bad = {
      {{"accept", "--set", "training.step=4"}, "training.step"},
      {{"accept", "--set", "training.steps=3"}, "at least 4"},
      {{"accept", "--layout", "dp2", "--ranks", "3"}, "--ranks"},
      {{"accept", "--layout", "dp0"}, "dp"},
      {{"accept", "--backend", "pigeons"}, "pigeons"},
      {{"accept", "--text", folder_.file("absent.txt")}, "absent.txt"},
      {{"accept", "--text", folder_.file("tiny.txt")}, "tiny.txt"},
      {{"replay", "training.steps"}, "training.steps"},
      {{"replay", "@" + folder_.file("absent.txt")}, "absent.txt"},
      {{"replay", "run.fault=1:2:forward:stop"}, "run.fault"},
      {{"replay", "run.fault=9:13:forward:kill"}, "run.fault"},
      {{"replay", "run.fault=1:13:save:kill"}, "step 13 does not save; expected step 19"},
      {{"replay", "training.steps=5 run.fault=1:2:save:kill"}, "expected step 3 or 4"},
      {{"replay", ""}, "empty run line"},
      {{"replay", " "}, "empty run line"},
      {{"accept", "--set", "run.fault=1:13:forward:kill"}, "run.fault is decided by"},
      {{"accept", "--set", "checkpoint.directory=here"}, "checkpoint.directory is decided by"},
      {{"accept", "--set", "checkpoint.every=3"}, "checkpoint.every is decided by"},
      {{"accept", "--ranks", "2", "--set", "run.layout=dp3"}, "run.layout is given twice"},
      {{"accept", "--nonsense"}, "nonsense"},
  };
  for (auto [arguments, named] : bad) {
    arguments.insert(arguments.end(), {"--out", out});
    const ChildResult child = command(arguments);
    EXPECT_EQ(child.exit_code, 2) << child.output;
    EXPECT_NE(child.output.find(named), std::string::npos) << child.output;
    EXPECT_FALSE(std::filesystem::exists(out)) << named;
  }
}

TEST_F(Accept, TracesOfTwoLegsDiffAsDiffDoes) {
  const Outcomes outcomes = run({"replay", "training.steps=6 run.layout=dp2.zero1"});
  ASSERT_EQ(outcomes.exit_code, 0) << outcomes.screen;
  const std::string legs = last_ + "/legs/replay/";
  EXPECT_EQ(command({"trace", "diff", legs + "dp1/trace", legs + "main/trace"}).exit_code, 0);
  const ChildResult different =
      command({"trace", "diff", legs + "dp1/trace", legs + "resumed/trace"});
  EXPECT_EQ(different.exit_code, 1);
  EXPECT_NE(different.output.find("step 0"), std::string::npos) << different.output;
  EXPECT_EQ(command({"trace", "diff", legs + "dp1/trace", legs + "absent"}).exit_code, 2);
  EXPECT_EQ(command({"trace", "check", legs + "absent"}).exit_code, 2);
  std::filesystem::create_directories(legs + "damaged");
  std::ofstream(legs + "damaged/rank_00000.jsonl") << "{\n";
  EXPECT_EQ(command({"trace", "check", legs + "damaged"}).exit_code, 2);
  EXPECT_EQ(command({"trace", "check", legs + "main/trace"}).exit_code, 0);
  EXPECT_EQ(command({"trace", "check", legs + "main/trace", "--steps", "7"}).exit_code, 1);
  const ChildResult json = command({"trace", "check", legs + "main/trace", "--json"});
  EXPECT_EQ(parse_json(json.output, "stdout").size(), 6u);
}

TEST_F(Accept, JsonIsTheReportAndNothingElse) {
  const ChildResult child = command(
      {"replay", "training.steps=4 run.layout=dp2", "--json", "--out", folder_.file("json")});
  EXPECT_EQ(child.exit_code, 0);
  std::ostringstream text;
  text << std::ifstream(folder_.file("json") + "/report.json").rdbuf();
  EXPECT_EQ(child.output, text.str());
}

TEST_F(Accept, BisectSkipsOnlyWhatCouldNotBeDecided) {
  EXPECT_EQ(bisect_exit_code(0), 0);
  EXPECT_EQ(bisect_exit_code(1), 1);
  EXPECT_EQ(bisect_exit_code(2), 2);
  EXPECT_EQ(bisect_exit_code(3), 125);
  EXPECT_EQ(bisect_exit_code(130), 130);
  const ChildResult bad = command({"accept", "--bisect", "--layout", "dp0"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.output.find("shardproof: "), std::string::npos) << bad.output;
}

TEST(AcceptPlan, ExpectationsNameEveryVerdictBeforeAnythingRuns) {
  const std::vector<Corpus> corpora = accept_corpora({});
  ASSERT_EQ(corpora.size(), 2u);
  EXPECT_EQ(corpora[0].kill_step, 13);
  EXPECT_EQ(corpora[0].kill_rank, 2);
  EXPECT_EQ(corpora[0].checkpoint_step(), 10);
  EXPECT_EQ(corpora[1].config.model.vocabulary, 256);
  const Json expected = expectations(corpora);
  EXPECT_EQ(expected.size(), 29u);
  std::set<std::string> checks;
  for (const Json& each : expected) {
    EXPECT_FALSE(each.at("expected").get<std::string>().empty());
    checks.insert(each.at("check").get<std::string>());
  }
  EXPECT_EQ(checks, (std::set<std::string>{"live", "cover", "replicas", "layout", "repeat", "data",
                                           "loss falls", "optimizer bytes", "optimizer",
                                           "checkpoint", "resume", "reshard", "kill", "kill-resume",
                                           "fault dtype", "fault commit", "fault shard"}));
}

TEST(AcceptPlan, OnEmptyTracesNothingPasses) {
  for (const Corpus& corpus : accept_corpora({})) {
    for (const PlannedVerdict& planned : plan_verdicts(corpus)) {
      EXPECT_EQ(planned.judge({}).outcome, Outcome::inconclusive) << planned.judge({}).check;
    }
  }
}

// The backend's sums have the same bits on the same backend alone.
TEST(AcceptPlan, ANativeRunThatIsKilledIsComparedOnItsOwnBackend) {
  AcceptOptions options;
  options.set = {"numerics.reduction=native"};
  const Corpus corpus = accept_corpora(options)[0];
  bool found = false;
  for (const Leg& leg : plan_legs(corpus, "checkpoints")) {
    EXPECT_NE(leg.name, "dp1");
    if (leg.name != "float64") continue;
    found = true;
    EXPECT_TRUE(leg.float64);
    EXPECT_EQ(leg.capture, (std::set<std::int64_t>{0, 1, 11, 19}));
  }
  EXPECT_TRUE(found);
  for (const PlannedVerdict& planned : plan_verdicts(corpus)) {
    const Verdict verdict = planned.judge({});
    EXPECT_EQ(verdict.outcome, Outcome::inconclusive) << verdict.check;
    EXPECT_NE(verdict.check, "layout");
    if (verdict.check != "kill-resume") continue;
    EXPECT_EQ(planned.legs.front(), "uncut-mpi");
  }
}

TEST(AcceptPlan, OneRankCanBeKilledToo) {
  AcceptOptions options;
  options.ranks = 1;
  EXPECT_EQ(accept_corpora(options)[0].kill_rank, 0);
  EXPECT_EQ(accept_corpora(options)[0].config.run.layout, "dp1.zero1");
}

TEST(ReplayCommand, IsALineThatReplayTakes) {
  const Corpus corpus = accept_corpora({})[0];
  Verdict verdict;
  verdict.check = "layout";
  EXPECT_EQ(replay_command(corpus, verdict), "shardproof replay 'run.layout=dp4.zero1'");
  verdict.check = "loss falls";
  EXPECT_EQ(replay_command(corpus, verdict), "shardproof replay --loss 'run.layout=dp4.zero1'");
  verdict.check = "kill";
  EXPECT_EQ(replay_command(corpus, verdict), "shardproof replay 'run.fault=2:13:backward:kill'");
  const Corpus again = replay_corpus(run_of(corpus), false);
  EXPECT_TRUE(again.kill);
  EXPECT_EQ(again.kill_rank, corpus.kill_rank);
  EXPECT_EQ(again.kill_step, corpus.kill_step);
}

}  // namespace
}  // namespace shardproof

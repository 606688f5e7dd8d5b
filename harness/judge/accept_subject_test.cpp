// ctest: invariant timeout=240 processors=2
// The command over a program that is not ours: it passes a right one, and says what is wrong with a
// wrong one by the check that should.
#include "harness/judge/accept_subject.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>

#include <filesystem>

#include "base/digest.h"
#include "harness/child.h"
#include "harness/judge/subject_testing.h"

namespace shardproof {
namespace {

using testing::fake_layout;
using testing::fake_subject;
using testing::write_subject;

struct Outcomes {
  int exit_code = -1;
  std::string screen;
  Json report;

  std::string of(const std::string& check, const std::string& subject) const {
    for (const Json& each : report.value("verdicts", Json::array())) {
      const bool mine = each["subject"].get<std::string>().starts_with(subject);
      if (each["check"] == check && mine) return each["outcome"];
    }
    return "none";
  }
  std::string reason(const std::string& check) const {
    for (const Json& each : report.value("verdicts", Json::array())) {
      if (each["check"] == check && each["outcome"] != "pass") return each["reason"];
    }
    return "";
  }
};

class AcceptSubject : public ::testing::Test {
 protected:
  Outcomes run(const Json& subject, const std::vector<std::string>& more = {}) {
    const std::string out = "report" + std::to_string(next_++);
    std::vector<std::string> words = {
        SHARDPROOF_COMMAND, "accept", "--subject", write_subject(folder_, subject), "--out",
        folder_.file(out)};
    words.insert(words.end(), more.begin(), more.end());
    const ChildResult child = run_child(words, std::chrono::seconds(200));
    Outcomes outcomes{child.exit_code, child.output, {}};
    const std::string report = folder_.read(out + "/report.json");
    if (!report.empty()) outcomes.report = parse_json(report, "report.json");
    return outcomes;
  }
  // The layout dp2 with a wrong, under the checks that are named.
  Outcomes run_wrong(const std::string& wrong, const std::string& only) {
    Json subject = fake_subject();
    subject["layout"]["dp2"] = fake_layout(2, wrong);
    return run(subject, {"--only", only, "--layout", "dp2"});
  }

  const TempFolder folder_;
  int next_ = 0;
};

TEST_F(AcceptSubject, PassesARightProgram) {
  const Outcomes found = run(fake_subject());
  EXPECT_EQ(found.exit_code, 0) << found.screen;
  for (const char* layout : {"ref", "dp2"}) {
    for (const char* check : {"live", "cover", "repeat", "resume", "data", "checkpoint"}) {
      EXPECT_EQ(found.of(check, layout), "pass") << check << " of " << layout << found.screen;
    }
  }
  EXPECT_EQ(found.of("layout", "dp2 against float64"), "pass") << found.screen;
  for (const char* place : {"STOP for rank 1 in backward of step 4", "KILL for rank 1 in forward",
                            "KILL for rank 1 in optimizer", "KILL for rank 1 in save of step 2"}) {
    EXPECT_EQ(found.of("kill", std::string("dp2: SIG") + place), "pass") << place << found.screen;
  }
  EXPECT_EQ(found.of("kill", "dp2: SIGKILL for rank 1 in clipped"), "none")
      << "the program has no such phase";
  EXPECT_NE(found.screen.find("no rank enters phase clipped"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(folder_.file("report0/report.html")));
  EXPECT_TRUE(std::filesystem::exists(folder_.file("report0/junit.xml")));
  const Json expected = parse_json(folder_.read("report0/expectations.json"), "expectations");
  EXPECT_GE(expected.size(), found.report["verdicts"].size());
}

TEST_F(AcceptSubject, WritesAReportThatDependsOnNeitherFolderNorOrderOfLegs) {
  const std::vector<std::string> only = {"--only", "live,checkpoint,layout"};
  const Outcomes first = run(fake_subject(), only), second = run(fake_subject(), only);
  EXPECT_EQ(first.exit_code, 0) << first.screen;
  EXPECT_EQ(first.report.dump(1), second.report.dump(1));
  const Outcomes together =
      run(fake_subject(), {"--only", "live,checkpoint,layout", "--set", "subject.at_once=4"});
  EXPECT_EQ(first.report["verdicts"].dump(1), together.report["verdicts"].dump(1));
}

TEST_F(AcceptSubject, ReportsTheSubjectFileThatItRead) {
  Json subject = fake_subject();
  const std::string launch = subject["subject"]["launch"];
  subject["subject"]["launch"] = "echo '{}' > fake.json; " + launch;
  const std::string digest = sha256(subject.dump(1)).hex();
  const Outcomes found = run(subject, {"--only", "live", "--set", "subject.deadline=19"});
  EXPECT_EQ(found.exit_code, 0) << found.screen;
  EXPECT_EQ(folder_.read("fake.json"), "{}\n") << "it was to change";
  EXPECT_EQ(found.report["facts"]["subject"]["digest"], digest);
  EXPECT_FALSE(found.report["facts"].contains("program")) << "its commit is not known";
  EXPECT_NE(found.report.dump().find("subject.deadline = 19"), std::string::npos);
}

TEST_F(AcceptSubject, CatchesEachWrongByItsCheck) {
  struct Row {
    const char* wrong;
    const char* check;
    const char* words;
  };
  for (const Row& row :
       {Row{"early_end", "live", "no more memory for step 2"},
        Row{"binary_end", "live", "(all of it: legs/dp2/output.txt)"},
        Row{"binary_end", "live", "caf\xEF\xBF\xBD"}, Row{"drift", "cover", "rank"},
        Row{"random", "repeat", "differ"}, Row{"lost_1k", "layout", ""},
        Row{"moments_lost", "resume", ""}, Row{"sampler_reset", "data", "resumed"},
        Row{"duplicate", "data", ""}, Row{"cut_checkpoint", "checkpoint", "state.safetensors"}}) {
    const Outcomes found = run_wrong(row.wrong, row.check);
    EXPECT_EQ(found.exit_code, 1) << row.wrong << found.screen;
    EXPECT_EQ(found.of(row.check, "dp2"), "fail") << row.wrong << found.screen;
    EXPECT_NE(found.reason(row.check).find(row.words), std::string::npos)
        << row.wrong << ": " << found.reason(row.check);
    EXPECT_NE(found.screen.find(std::string("--only ") + row.check + " --layout dp2"),
              std::string::npos)
        << "no replay line\n"
        << found.screen;
  }
}

TEST_F(AcceptSubject, CatchesAJobThatDoesNotEndWithItsRank) {
  Json subject = fake_subject();
  subject["subject"]["deadline"] = 2;
  subject["layout"]["dp2"] = fake_layout(2, "deaf");
  const Outcomes deaf = run(subject, {"--only", "kill", "--set", "subject.at_once=8"});
  EXPECT_EQ(deaf.exit_code, 1) << deaf.screen;
  EXPECT_EQ(deaf.of("kill", "dp2: SIGKILL for rank 1 in backward"), "fail") << deaf.screen;
  subject["layout"]["dp2"] = fake_layout(2, "leaves_ranks");
  EXPECT_NE(deaf.report.dump().find("init_process_group(timeout=...)"), std::string::npos);
  const Outcomes leaves = run(subject, {"--only", "kill", "--set", "subject.at_once=8"});
  EXPECT_EQ(leaves.of("kill", "dp2: SIGKILL for rank 1 in backward"), "fail") << leaves.screen;
}

TEST_F(AcceptSubject, KillsARankThatEntersThePhaseOrSaysThatNoneDoes) {
  const Outcomes first = run_wrong("saves_alone", "kill");
  EXPECT_EQ(first.exit_code, 0) << first.screen;
  EXPECT_EQ(first.of("kill", "dp2: SIGKILL for rank 0 in save of step 2"), "pass") << first.screen;
  EXPECT_EQ(first.screen.find("not confirmed"), std::string::npos) << first.screen;
  const Outcomes none = run_wrong("no_save_phase", "kill");
  EXPECT_EQ(none.exit_code, 3) << none.screen;
  EXPECT_EQ(none.of("kill", "dp2: SIGKILL for rank 1 in save"), "inconclusive") << none.screen;
  EXPECT_EQ(none.reason("kill"), "not run: no rank enters phase save in step 2");
}

TEST_F(AcceptSubject, RestartsNothingWhereAResumeFails) {
  const Outcomes found = run_wrong("moments_lost", "resume,kill");
  EXPECT_EQ(found.of("resume", "dp2"), "fail") << found.screen;
  EXPECT_EQ(found.of("kill", "dp2: SIGKILL for rank 1 in backward"), "inconclusive");
  EXPECT_NE(found.reason("kill").find("its resume fails already"), std::string::npos)
      << found.reason("kill");
  const Outcomes again = run_wrong("saves_again", "resume");
  EXPECT_EQ(again.reason("resume"),
            "resumed at step 6, not 3: the program saved again at step 6; save at {save} only, or "
            "set subject.save");
}

TEST_F(AcceptSubject, AsksThatAResumeReadsItsCheckpoint) {
  const Outcomes retrains = run_wrong("retrains", "resume");
  EXPECT_EQ(retrains.of("resume", "dp2"), "fail") << retrains.screen;
  EXPECT_NE(retrains.reason("resume").find("resumes without its checkpoint"), std::string::npos)
      << retrains.reason("resume");
  for (const char* right : {"", "afresh"}) {
    const Outcomes found = run_wrong(right, "resume");
    EXPECT_EQ(found.of("resume", "dp2"), "pass") << found.screen;
    EXPECT_NE(found.screen.find("leg dp2.bare_resume"), std::string::npos) << found.screen;
  }
}

TEST_F(AcceptSubject, TakesAFailureThatIsExpectedAndFailsOneThatIsMissing) {
  Json subject = fake_subject();
  subject["layout"]["lost"] = fake_layout(2, "lost_1k");
  subject["layout"]["lost"]["checks"] = {"layout"};
  subject["layout"]["lost"]["expect"] = {{"layout", "not divided by k"}};
  const Outcomes found = run(subject, {"--only", "layout"});
  EXPECT_EQ(found.exit_code, 0) << found.screen;
  EXPECT_EQ(found.of("layout", "lost"), "expected-fail");
  EXPECT_NE(found.screen.find("XFAIL layout"), std::string::npos) << found.screen;
  EXPECT_NE(found.reason("layout").find("not divided by k (found: "), std::string::npos);
  subject["layout"]["lost"]["args"] = "";
  const Outcomes missing = run(subject, {"--only", "layout", "--layout", "lost"});
  EXPECT_EQ(missing.exit_code, 1) << missing.screen;
  EXPECT_EQ(missing.reason("layout"), "expected to fail: not divided by k; it passes");
  subject["layout"]["lost"]["args"] = "--wrong early_end";
  const Outcomes crashed = run(subject, {"--only", "layout", "--layout", "lost"});
  EXPECT_EQ(crashed.exit_code, 1) << "a crash is not what was expected" << crashed.screen;
}

TEST_F(AcceptSubject, BlamesNoProgramThatIsNotReproducible) {
  const Outcomes found = run_wrong("random", "resume");
  EXPECT_EQ(found.exit_code, 3) << found.screen;
  EXPECT_EQ(found.of("resume", "dp2"), "inconclusive");
  EXPECT_NE(found.reason("resume").find("not reproducible"), std::string::npos);
}

TEST_F(AcceptSubject, NotesAnUncleanExitAndJudgesAllTheSame) {
  const Outcomes found = run_wrong("dies_after_end", "live,cover");
  EXPECT_EQ(found.exit_code, 0) << found.screen;
  EXPECT_NE(found.screen.find("unclean exit: leg dp2 ended with exit code 134"), std::string::npos)
      << found.screen;
}

TEST_F(AcceptSubject, SaysWhatToAddWhereNoTraceIsWritten) {
  Json subject = fake_subject();
  subject["layout"]["ref"] = fake_layout(1, "no_trace");
  const Outcomes none = run(subject);
  EXPECT_EQ(none.exit_code, 2) << none.screen;
  for (const char* word : {"wrote no trace", "SHARDPROOF_TRACE", "shardproof_trace.py"}) {
    EXPECT_NE(none.screen.find(word), std::string::npos) << none.screen;
  }
  EXPECT_EQ(none.screen.find("not run"), std::string::npos) << "nothing else is tried";
  subject["subject"]["launch"] =
      "no-such-command {ranks} {args} {dtype} {steps} {save} {ckpt} {resume}";
  const Outcomes lost = run(subject);
  EXPECT_EQ(lost.exit_code, 3) << lost.screen;
  EXPECT_NE(lost.screen.find("no-such-command"), std::string::npos) << lost.screen;
}

TEST_F(AcceptSubject, JudgesThePrintedScalarsOfAProgramThatTracesNothing) {
  Json subject;
  subject["subject"] =
      Json{{"launch",
            "for i in 1 2 3 4 5 6; do echo \"step: $i  loss: 8.$((90 - i * 7))  grad_norm: 1.$i  "
            "memory: 1.0GiB(1%)\"; done; : {ranks} {args} {steps}"},
           {"checkpoint", "none"},
           {"scalars", "torchtitan"}};
  subject["layout"]["ref"] = fake_layout(1);
  const Outcomes found = run(subject, {"--only", "live,cover,repeat,kill"});
  EXPECT_EQ(found.exit_code, 3) << found.screen;
  EXPECT_NE(found.of("live", "ref"), "fail") << found.screen;
  EXPECT_EQ(found.of("repeat", "ref"), "inconclusive") << found.screen;
  EXPECT_EQ(found.reason("cover").find("tensors: not verified"), 0u) << found.reason("cover");
  subject["subject"]["launch"] = "echo no step; : {ranks} {args} {steps}";
  const Outcomes none = run(subject);
  EXPECT_EQ(none.exit_code, 2) << none.screen;
  EXPECT_NE(none.screen.find("left no scalars of torchtitan"), std::string::npos) << none.screen;
}

TEST_F(AcceptSubject, LooksAtTheCheckpointOfItsOwnLegAndStep) {
  for (const char* wrong : {"saves_elsewhere", "saves_again"}) {
    const Outcomes found = run_wrong(wrong, "checkpoint");
    const bool again = std::string(wrong) == "saves_again";
    EXPECT_EQ(found.of("checkpoint", "dp2"), again ? "pass" : "inconclusive") << found.screen;
    EXPECT_NE(found.report.dump().find(again ? "the save of step 6 is not looked at"
                                             : "is not below checkpoints/dp2, where the leg was "
                                               "told to save"),
              std::string::npos)
        << found.report.dump(1);
  }
  const Outcomes fifo = run_wrong("leaves_fifo", "checkpoint,resume");
  for (const char* check : {"checkpoint", "resume"}) {
    EXPECT_EQ(fifo.of(check, "dp2"), "fail") << fifo.screen;
  }
  EXPECT_NE(fifo.reason("resume").find("checkpoints/dp2/fifo"), std::string::npos) << fifo.screen;
}

TEST_F(AcceptSubject, RunsNothingMoreWhereTheReferenceFails) {
  Json subject = fake_subject();
  subject["layout"]["ref"] = fake_layout(1, "early_end");
  const Outcomes found = run(subject, {"--only", "live"});
  EXPECT_EQ(found.exit_code, 1) << found.screen;
  EXPECT_EQ(found.of("live", "ref"), "fail");
  EXPECT_EQ(found.of("live", "dp2"), "inconclusive");
  EXPECT_NE(found.screen.find("not run: the reference did not end well"), std::string::npos);
}

TEST_F(AcceptSubject, RefusesWhatItCannotMeanBeforeAnyFolderIsMade) {
  const auto refused = [&](const Json& subject, const std::vector<std::string>& more,
                           const std::string& word) {
    const Outcomes found = run(subject, more);
    EXPECT_EQ(found.exit_code, 2) << found.screen;
    EXPECT_NE(found.screen.find(word), std::string::npos) << found.screen;
    EXPECT_FALSE(std::filesystem::exists(folder_.file("report" + std::to_string(next_ - 1))));
  };
  refused(fake_subject(), {"--only", "speed"}, "--only speed");
  refused(fake_subject(), {"--layout", "tp2"}, "--layout tp2");
  refused(fake_subject(), {"--set", "subject.stepps=1"}, "subject.steps");
  refused(Json::object(), {}, "subject.launch is missing");
}

TEST_F(AcceptSubject, EndsItsLegWhenItIsInterrupted) {
  Json subject = fake_subject();
  subject["layout"]["ref"] = fake_layout(1, "hang");
  const std::string out = folder_.file("out");
  Child child(
      {SHARDPROOF_COMMAND, "accept", "--subject", write_subject(folder_, subject), "--out", out},
      std::chrono::seconds(60));
  const std::string rank_file = out + "/legs/ref/trace/rank_00000.jsonl";
  const Deadline deadline = Deadline::after(std::chrono::seconds(30));
  const auto stands_still = [&] {
    std::error_code ignored;
    if (!std::filesystem::exists(rank_file, ignored)) return false;
    return folder_.read("out/legs/ref/trace/rank_00000.jsonl").find("\"step\":1,\"loss\"") !=
           std::string::npos;
  };
  while (!stands_still() && !deadline.expired())
    ASSERT_FALSE(child.ended(std::chrono::milliseconds(5)));
  const Trace trace = read_trace(out + "/legs/ref/trace");
  const int rank = trace.ranks.at(0).run["pid"].get<int>();
  ASSERT_EQ(::kill(rank, 0), 0);
  ASSERT_EQ(::kill(child.pid(), SIGINT), 0);
  while (!child.ended(std::chrono::milliseconds(50))) {
  }
  EXPECT_EQ(child.result().exit_code, 130) << child.result().output;
  EXPECT_NE(::kill(rank, 0), 0) << "the rank is left";
}

}  // namespace
}  // namespace shardproof

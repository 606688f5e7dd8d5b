// ctest: fault timeout=120
// One leg: what it is started with, and that nothing of it is left however it ends.
#include "harness/judge/subject_leg.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <set>

#include "harness/judge/subject_testing.h"

namespace shardproof {
namespace {

using testing::fake_subject;
using testing::write_subject;

class SubjectLegs : public ::testing::Test {
 protected:
  SubjectLegResult run(const SubjectLeg& leg, const std::string& wrong = "",
                       const std::atomic<bool>* stop = nullptr) {
    Json subject = fake_subject();
    subject["subject"]["deadline"] = deadline_;
    if (!launch_.empty()) subject["subject"]["launch"] = launch_;
    subject["layout"]["dp2"] = testing::fake_layout(2, wrong);
    return run_subject_leg(load_subject(write_subject(folder_, subject)), leg, folders_, stop);
  }
  SubjectLegResult run(const std::string& wrong) {
    return run(SubjectLeg{.name = "dp2", .layout = "dp2"}, wrong);
  }
  // Of harness.jsonl.
  Json event(const SubjectLegResult& result, const std::string& kind) const {
    for (const Json& each : result.trace.harness) {
      if (each.value("kind", "") == kind) return each;
    }
    return nullptr;
  }

  const TempFolder folder_;
  const LegFolders folders_{folder_.path() + "/out"};
  double deadline_ = 20;
  std::string launch_;
};

TEST_F(SubjectLegs, LeaveTraceOutputAndTheEventsOfTheStarter) {
  const SubjectLegResult result = run("");
  EXPECT_TRUE(result.good()) << result.problem;
  EXPECT_EQ(result.unclean, "");
  EXPECT_EQ(result.trace.ranks.size(), 2u);
  EXPECT_EQ(event(result, "start")["ranks"], 2);
  EXPECT_EQ(event(result, "start")["layout"], "dp2");
  EXPECT_NE(event(result, "start")["command"].get<std::string>().find("--steps 6 --save-at 3"),
            std::string::npos);
  const Json exit = event(result, "exit");
  EXPECT_EQ(exit["exit_code"], 0);
  EXPECT_EQ(exit["left"], 0);
  EXPECT_FALSE(exit["timed_out"]);
  std::set<std::int64_t> captured;
  for (const TensorFileRef& file : result.trace.files) captured.insert(file.step);
  EXPECT_EQ(captured, (std::set<std::int64_t>{-1, 0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(has_saved(result.trace));
  EXPECT_TRUE(passes_place(result.trace, {1, 4, "reduced"}));
  EXPECT_FALSE(passes_place(result.trace, {1, 4, "clipped"}));
}

TEST_F(SubjectLegs, RunInTheFolderOfTheSubjectFileWithTheEnvironmentOfTheContract) {
  launch_ =
      "pwd; env | grep -E '^(SHARDPROOF|OMP)' | grep -v _DEPS= | sort; cat; echo err >&2; : "
      "{ranks} {args} {dtype} "
      "{steps} {save} {ckpt} {resume}";
  const SubjectLegResult result = run("");
  EXPECT_FALSE(result.traced);
  EXPECT_NE(result.problem.find("wrote no trace"), std::string::npos) << result.problem;
  EXPECT_EQ(folder_.read("out/legs/dp2/output.txt"),
            folder_.path() +
                "\nOMP_NUM_THREADS=1\nSHARDPROOF_MATCH=\nSHARDPROOF_TENSORS=-1,0,1,2,"
                "3,4,5\nSHARDPROOF_TRACE=" +
                folders_.trace("dp2") + "\nerr\n");
}

TEST_F(SubjectLegs, ResumeFromACopyOfTheCheckpoint) {
  ASSERT_TRUE(run("").good());
  SubjectLeg leg{.name = "dp2.resume", .layout = "dp2"};
  leg.from = "dp2";
  const SubjectLegResult resumed = run(leg);
  EXPECT_TRUE(resumed.good()) << resumed.problem;
  EXPECT_EQ(resumed.first, 3);
  EXPECT_EQ(resumed.trace.step_numbers(), (std::vector<std::int64_t>{3, 4, 5}));
  std::filesystem::remove_all(folders_.checkpoint("dp2.resume"));
  EXPECT_TRUE(std::filesystem::exists(folders_.checkpoint("dp2") + "/state.safetensors"));
}

TEST_F(SubjectLegs, RestartAfreshWhereNothingWasSaved) {
  for (const bool saved : {false, true}) {
    SubjectLeg killed{.name = saved ? "late" : "early", .layout = "dp2"};
    killed.kill = KillPlace{1, saved ? 4 : 1, "backward"};
    ASSERT_EQ(run(killed).exit_code, 1);
    SubjectLeg again{.name = killed.name + ".restart", .layout = "dp2"};
    again.from = killed.name;
    again.in_place = true;
    const SubjectLegResult result = run(again);
    EXPECT_TRUE(result.good()) << result.problem;
    EXPECT_EQ(result.first, saved ? 3 : 0);
    EXPECT_EQ(result.trace.step_numbers().front(), result.first);
  }
}

TEST_F(SubjectLegs, MeetTheirDeadlineWithNothingLeft) {
  deadline_ = 2;
  const SubjectLegResult result = run("hang");
  EXPECT_NE(result.problem.find("met its deadline of 2 s before rank 0 wrote its end"),
            std::string::npos)
      << result.problem;
  EXPECT_NE(result.problem.find("in optimizer of step 2"), std::string::npos) << result.problem;
  EXPECT_TRUE(event(result, "exit")["timed_out"]);
  EXPECT_GE(event(result, "exit")["left"], 3) << "a parent and its ranks";
  for (const RankTrace& rank : result.trace.ranks) {
    EXPECT_NE(::kill(rank.run["pid"].get<int>(), 0), 0) << "rank " << rank.rank << " is there";
  }
}

TEST_F(SubjectLegs, AreToEndByThemselvesBehindTheEndOfTheirRanks) {
  deadline_ = 2;
  const SubjectLegResult result = run("never_ends");
  EXPECT_EQ(result.problem.find("met its deadline of 2 s after all its ranks had written"), 0u)
      << result.problem;
  EXPECT_EQ(result.unclean, "");
  EXPECT_FALSE(result.good());
}

TEST_F(SubjectLegs, SayThatTheyMetTheirDeadlineWithoutATrace) {
  deadline_ = 1;
  launch_ = "echo waiting; sleep 60; : {ranks} {args} {dtype} {steps} {save} {ckpt} {resume}";
  const SubjectLegResult result = run("");
  EXPECT_EQ(result.problem.find("met its deadline of 1 s and wrote no trace; it printed last: "
                                "waiting (all of it: " +
                                folders_.leg("dp2") + "/output.txt)"),
            0u)
      << result.problem;
}

TEST_F(SubjectLegs, EndAStoppedRankWithTheRest) {
  deadline_ = 2;
  SubjectLeg leg{.name = "stop", .layout = "dp2"};
  leg.kill = KillPlace{1, 4, "backward", true};
  const SubjectLegResult result = run(leg, "deaf");  // whose parent waits for ever
  EXPECT_TRUE(event(result, "exit")["timed_out"]);
  const int victim = result.trace.ranks.at(1).run["pid"].get<int>();
  EXPECT_NE(::kill(victim, 0), 0) << "a stopped process is left";
}

TEST_F(SubjectLegs, KillWhatIsLeftBehind) {
  const SubjectLegResult result = run("orphan");
  EXPECT_TRUE(result.good()) << result.problem;
  EXPECT_EQ(event(result, "exit")["left"], 1);
  EXPECT_NE(result.unclean.find("left 1 process"), std::string::npos) << result.unclean;
  EXPECT_NE(::kill(std::stoi(folder_.read("orphan.pid")), 0), 0);
}

TEST_F(SubjectLegs, TellAnUncleanExitFromAnEarlyEnd) {
  const SubjectLegResult unclean = run("dies_after_end");
  EXPECT_TRUE(unclean.good()) << unclean.problem;
  EXPECT_EQ(unclean.unclean, "ended with exit code 134");
  const SubjectLegResult early = run(SubjectLeg{.name = "early", .layout = "dp2"}, "early_end");
  EXPECT_NE(early.problem.find("ended with exit code 3 before rank"), std::string::npos);
  EXPECT_NE(early.problem.find("RuntimeError: no more memory for step 2"), std::string::npos)
      << early.problem;
}

TEST_F(SubjectLegs, EndAtAWishWithNothingLeft) {
  const std::atomic<bool> stop = true;
  const SubjectLegResult result = run(SubjectLeg{.name = "dp2", .layout = "dp2"}, "hang", &stop);
  EXPECT_TRUE(result.interrupted);
  EXPECT_FALSE(result.good());
}

}  // namespace
}  // namespace shardproof

// ctest: fault timeout=120 processors=2 lock=mpi
// Restarts of rank processes: by faults at a step, in a call and in a save, by SIGKILL and SIGSTOP
// from outside, by the command; the end has the bits of the run that nothing befell, and no process
// is left.
#include <csignal>
#include <fstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/launcher_testing.h"
#include "harness/supervisor_testing.h"

namespace shardproof {
namespace {

using std::chrono::seconds;

class SupervisedProcesses : public testing::Test {
 protected:
  RunRequest request_for(const std::string& layout, const std::string& fault, int restarts) {
    RunRequest request;
    request.config = supervised_case(layout, fault, restarts);
    request.config.run.backend = "mpi";
    request.config.checkpoint.directory = folder.file("checkpoints");
    request.trace.directory = folder.file("trace");
    request.program = SHARDPROOF_COMMAND;
    request.launch_deadline = seconds(60);
    return request;
  }
  // The pids that the ranks of an attempt have traced.
  std::vector<pid_t> pids(int restart) const {
    std::string trace = folder.file("trace");
    if (restart > 0) trace = path_of_restart(trace, restart);
    std::vector<pid_t> out;
    for (const RankTrace& rank : read_trace(trace).ranks) {
      out.push_back(rank.run.at("pid").get<pid_t>());
    }
    return out;
  }
  void expect_equal(RunRequest request) {
    const Trajectory expected = undisturbed(request.config);
    Trajectory found;
    const auto also = request.on_step;
    found.listen(request);
    request.on_step = [record = request.on_step, also](const StepResult& result,
                                                       const StepMetrics& metrics) {
      record(result, metrics);
      if (also) also(result, metrics);
    };
    EXPECT_TRUE(supervise(request, heard.supervision())) << heard.text();
    found.state = state_of_newest(*posix_storage(request.config.checkpoint.directory, false));
    EXPECT_EQ(found, expected) << heard.text();
    for (std::size_t n = 0; n <= heard.recoveries.size(); ++n) {
      for (const pid_t pid : pids(static_cast<int>(n))) {
        EXPECT_FALSE(launcher_testing::is_alive(pid)) << "attempt " << n;
      }
    }
  }
  const TempFolder folder;
  Heard heard;
};

TEST_F(SupervisedProcesses, DeathsAtAStepInACallAndInASave) {
  expect_equal(request_for("dp2.zero1",
                           "step:1:3:backward!kill;1/call:0:world/dp.0:all_to_all.2:before!kill;"
                           "2/file:0:link.0:before!kill",
                           3));
  ASSERT_EQ(heard.recoveries.size(), 3U) << heard.text();
  for (const Recovery& recovery : heard.recoveries) {
    EXPECT_GT(recovery.part("start"), 0) << text(recovery);
    EXPECT_GT(recovery.part("load"), 0) << text(recovery);
    EXPECT_GT(recovery.part("data"), 0) << text(recovery);
    EXPECT_GT(recovery.part("step"), 0) << text(recovery);
    EXPECT_LT(recovery.seconds(), 30) << text(recovery);
  }
}

// After the second step: what the killer knows of the ranks it reads from their trace.
TEST_F(SupervisedProcesses, SignalsFromOutside) {
  RunRequest request = request_for("dp3.zero1", "", 2);
  request.config.training.steps = 40;
  request.config.guard.look_seconds = 0.3;
  int killed = 0;
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    const int signals[] = {SIGKILL, SIGSTOP};
    if (killed == 2 || result.step < 3 + 4 * killed) return;
    kill(pids(killed)[1], signals[killed]);
    ++killed;
  };
  expect_equal(request);
  ASSERT_EQ(heard.recoveries.size(), 2U) << heard.text();
  EXPECT_TRUE(heard.has("rank 1 died (step ")) << heard.text();
  EXPECT_TRUE(heard.has("hang (")) << heard.text();
}

TEST_F(SupervisedProcesses, TheCommandGivesUpWithItsHistory) {
  const auto result =
      run_child({SHARDPROOF_COMMAND, "train", "--backend", "mpi", "--layout", "dp2", "--set",
                 "run.restarts=1", "--set", "run.restart_seconds=0.1", "--set",
                 "run.fault=step:1:2:backward!kill;1/step:0:1:backward!kill"},
                seconds(60));
  EXPECT_EQ(result.exit_code, 1) << result.output;
  for (const char* part :
       {"shardproof: rank 1 died (step 2, backward)",
        "shardproof: restart 1 of 1 on dp2 from the beginning (there is no whole checkpoint)",
        "shardproof: restart 1 on dp2 from the beginning: step 0 done ",
        "given up after 1 restarts (run.restarts): attempt 1 on dp2 from the beginning, 2 "
        "steps "}) {
    EXPECT_NE(result.output.find(part), std::string::npos) << part << "\n" << result.output;
  }
}

TEST_F(SupervisedProcesses, CtrlCEndsTheBackOff) {
  const std::string out = folder.file("out");
  const std::string script =
      std::string(SHARDPROOF_COMMAND) +
      " train --backend mpi --layout dp2 --set run.restarts=1 --set run.restart_seconds=3000"
      " --set run.fault='step:1:2:backward!kill' > " +
      out + " 2>&1 & p=$!; until grep -q 'restart 1 of 1' " + out +
      "; do sleep 0.02; done; kill -INT $p; wait $p; exit $?";
  const auto result = run_child({"sh", "-c", script}, seconds(60));
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 130) << folder.read("out");
}

TEST_F(SupervisedProcesses, UnderTheUsersOwnMpirunRestartsAreRefused) {
  const auto result =
      run_child({SHARDPROOF_COMMAND, "train", "--layout", "dp1", "--set", "run.restarts=1"},
                seconds(60), {{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}});
  EXPECT_EQ(result.exit_code, 2) << result.output;
  EXPECT_NE(result.output.find("does not restart"), std::string::npos) << result.output;
}

}  // namespace
}  // namespace shardproof

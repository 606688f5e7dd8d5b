// ctest: fault timeout=180 lock=mpi
// A closed terminal, nohup, and a launcher that is killed, as a user meets them.
#include <gtest/gtest.h>
#include <poll.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/temp_folder.h"
#include "harness/child.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

class SignalCommand : public testing::Test {
 protected:
  SignalCommand() {
    Config config = small_case("dp2.zero1", 100000);
    config.checkpoint.directory = folder_.file("store");  // by which a request is known as ours
    folder_.write("case.toml", to_toml(config));
  }

  // Starts a run that would go on for minutes, sends the signal after its first step, and ends as
  // the run does. `start` stands before the command. The file `request` keeps the path of the
  // request that its ranks read.
  ChildResult signalled(const std::string& signal, const std::string& options,
                        const std::string& start = "") const {
    const std::string script =
        "cd " + folder_.path() + "; " + start + " " SHARDPROOF_COMMAND " train case.toml " +
        options + " > out 2>&1 & p=$!; cd " + folder_.path() +
        "; until grep -qs '^step  ' out; do sleep 0.02; done; grep -ls " + folder_.path() +
        " /dev/shm/shardproof-run-*/request.json > request; kill -" + signal +
        " $p; wait $p; exit $?";
    return run_child({"sh", "-c", script}, seconds(60));
  }
  std::string request() const {
    const std::string text = folder_.read("request");
    return text.substr(0, text.find('\n'));
  }
  std::size_t processes() const {
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      const std::string line{std::istreambuf_iterator<char>(file), {}};
      count += line.find(request()) != std::string::npos;
    }
    return count;
  }
  void expect_all_gone() const {
    ASSERT_NE(request(), "");
    const Deadline deadline = Deadline::after(seconds(10));
    while (processes() > 0 && !deadline.expired()) poll(nullptr, 0, 10);
    EXPECT_EQ(processes(), 0u);
  }
  ChildResult shardproof(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), SHARDPROOF_COMMAND);
    return run_child(arguments, seconds(60));
  }

  const TempFolder folder_;
};

TEST_F(SignalCommand, AClosedTerminalEndsThreadRanksAfterTheStepWithAWholeCheckpoint) {
  const auto result = signalled("HUP", "");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 130) << folder_.read("out");
  EXPECT_EQ(shardproof({"checkpoint", "verify", folder_.file("store")}).exit_code, 0);
}

TEST_F(SignalCommand, AClosedTerminalEndsMpiRanks) {
  const auto result = signalled("HUP", "--backend mpi");
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.exit_code, 130) << folder_.read("out");
  expect_all_gone();
  EXPECT_FALSE(fs::exists(request()));
}

TEST_F(SignalCommand, UnderNohupAClosedTerminalEndsNothing) {
  folder_.write("case.toml", to_toml(small_case("dp2.zero1", 30)));
  for (const char* backend : {"threads", "mpi"}) {
    const auto result = signalled("HUP", std::string("--backend ") + backend, "nohup");
    EXPECT_EQ(result.exit_code, 0) << folder_.read("out");
    EXPECT_NE(folder_.read("out").find("step   29/30"), std::string::npos) << folder_.read("out");
  }
}

TEST_F(SignalCommand, AKilledLauncherLeavesNoRankAndWhatItLeavesTheNextRunRemoves) {
  const std::string temporary = folder_.file("tmp");
  fs::create_directory(temporary);
  const auto result = signalled("KILL", "--backend mpi", "TMPDIR=" + temporary);
  EXPECT_EQ(result.exit_code, 128 + 9);
  EXPECT_TRUE(fs::is_empty(temporary)) << "a session of mpirun that nobody removes";
  expect_all_gone();
  EXPECT_TRUE(fs::exists(request()));
  folder_.write("case.toml", to_toml(small_case("dp2.zero1", 1)));
  const auto next = shardproof({"train", folder_.file("case.toml"), "--backend", "mpi"});
  EXPECT_EQ(next.exit_code, 0) << next.output;
  EXPECT_FALSE(fs::exists(fs::path(request()).parent_path()));
}

}  // namespace
}  // namespace shardproof

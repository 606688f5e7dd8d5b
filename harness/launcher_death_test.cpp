// ctest: fault timeout=90 processors=2 lock=mpi
// A launcher in a process of its own (this executable again, --launch MODE) that is ended from
// outside: its ranks end with it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>

#include "harness/launcher_testing.h"

namespace shardproof::launcher_testing {
namespace {

int launcher_main(const std::string& mode) {
  Heard heard;
  LaunchRequest request = request_for(mode, heard);
  request.on_output = [](int, const std::string& line) { std::cout << line << std::endl; };
  return launch(request).interrupted ? 130 : 1;
}

class OtherLauncher {
 public:
  OtherLauncher() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
    pid_ = fork();
    if (pid_ == 0) {
      dup2(fds[1], STDOUT_FILENO);
      const std::string self = own_executable();
      execl(self.c_str(), self.c_str(), "--launch", "hang", nullptr);
      _exit(127);
    }
    close(fds[1]);
    output_ = fdopen(fds[0], "r");
  }
  ~OtherLauncher() {
    kill(pid_, SIGKILL);
    fclose(output_);
    if (!waited_) waitpid(pid_, nullptr, 0);
  }
  std::set<pid_t> wait_for_pids(std::size_t count) {
    Heard heard;
    char line[4096];
    while (heard.pids.size() < count && std::fgets(line, sizeof line, output_) != nullptr) {
      heard.take(0, std::string(line, std::strlen(line) - 1));
    }
    return heard.pids;
  }
  int end_by(int signal) {
    int status = 0;
    kill(pid_, signal);
    waitpid(pid_, &status, 0);
    waited_ = true;
    return status;
  }

 private:
  pid_t pid_ = -1;
  FILE* output_ = nullptr;
  bool waited_ = false;
};

TEST(LauncherDeath, RanksEndWhenTheLauncherIsKilled) {
  OtherLauncher launcher;
  const std::set<pid_t> pids = launcher.wait_for_pids(8);
  ASSERT_EQ(pids.size(), 8u);
  for (const pid_t pid : pids) EXPECT_TRUE(is_alive(pid));
  const int status = launcher.end_by(SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(status));
  expect_gone(pids, seconds(5));
}

TEST(LauncherDeath, CtrlCEndsEverythingAndReturns) {
  for (const int signal : {SIGINT, SIGTERM}) {
    OtherLauncher launcher;
    const std::set<pid_t> pids = launcher.wait_for_pids(8);
    ASSERT_EQ(pids.size(), 8u);
    const int status = launcher.end_by(signal);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 130);
    expect_gone(pids);
  }
}

}  // namespace
}  // namespace shardproof::launcher_testing

int main(int argc, char** argv, char** environment) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb == "--rank") {
    return shardproof::launcher_testing::rank_main(
        argv[2], shardproof::launcher_testing::variables_of(environment));
  }
  if (verb == "--launch") return shardproof::launcher_testing::launcher_main(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

// ctest: fault timeout=120 processors=2 lock=mpi
// Launches this executable again as ranks (--rank MODE), which use the control socket but not MPI,
// so every way to end is tried with real processes; and as a launcher (--launch MODE) that is
// killed.
#include "harness/launcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "harness/child.h"
#include "harness/control.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

double now() {
  return std::chrono::duration<double>(Clock::real().now()).count();
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// ---- the rank ----

void say_pid(const std::string& who) {
  std::cout << "pid " << who << " " << getpid() << std::endl;
}

// A process of the rank's own, which would outlive it.
void start_grandchild() {
  if (fork() != 0) return;
  say_pid("grandchild");
  for (;;) pause();
}

int rank_main(const std::string& mode) {
  const int rank = std::stoi(variable("OMPI_COMM_WORLD_RANK"));
  if (mode == "early") return 7;
  ControlClient control(variable("SHARDPROOF_CONTROL"), variable("SHARDPROOF_CONTROL_TOKEN"), rank);
  say_pid("rank");
  if (mode == "ok") {
    std::cout << "hello from " << rank << " with " << variable("GREETING") << " and "
              << variable("OMP_NUM_THREADS") << " thread\n";
    std::cerr << "to stderr" << std::endl;
    std::cout << "no newline at the end" << std::flush;
    control.at(0, "forward");
  } else if (mode == "exit3" && rank == 1) {
    control.error("the config is wrong");
    control.done(3);
    return 3;
  } else if (mode == "exit3" || mode == "hang" || mode == "stubborn") {
    if (mode == "stubborn") signal(SIGTERM, SIG_IGN);
    start_grandchild();
    for (;;) pause();
  } else if (mode == "kill") {
    start_grandchild();
    control.at(12, "optimizer");
    control.at(13, "backward");
    std::this_thread::sleep_for(milliseconds(100));  // the grandchild has said its pid
    if (rank == 2) {
      std::cout << "killed at " << std::to_string(now()) << std::endl;
      raise(SIGKILL);
    }
    for (;;) pause();
  } else if (mode == "deserts") {
    return 0;  // without done
  }
  control.done(0);
  return 0;
}

// ---- the launcher, and what it heard ----

struct Heard {
  std::vector<std::pair<int, std::string>> lines;
  std::set<pid_t> pids;
  double killed_at = 0;

  void take(int rank, const std::string& line) {
    lines.emplace_back(rank, line);
    const std::size_t space = line.rfind(' ');
    if (line.starts_with("pid ")) pids.insert(std::stoi(line.substr(space)));
    if (line.starts_with("killed at ")) killed_at = std::stod(line.substr(space));
  }
  bool has(int rank, const std::string& line) const {
    return std::count(lines.begin(), lines.end(), std::pair(rank, line)) == 1;
  }
  std::string text() const {
    std::string all;
    for (const auto& [rank, line] : lines) all += std::to_string(rank) + ": " + line + "\n";
    return all;
  }
};

LaunchRequest request_for(const std::string& mode, Heard& heard) {
  LaunchRequest request;
  request.ranks = 4;
  request.command = {own_executable(), "--rank", mode};
  request.deadline = seconds(60);
  request.grace = milliseconds(200);
  request.on_output = [&heard](int rank, const std::string& line) { heard.take(rank, line); };
  return request;
}

// Zombies of others count as gone: they run no code.
bool is_alive(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(in, line)) return false;
  return line.at(line.rfind(')') + 2) != 'Z';
}

void expect_gone(const std::set<pid_t>& pids, Duration patience = {}) {
  const Deadline deadline = Deadline::after(patience);
  for (const pid_t pid : pids) {
    while (is_alive(pid) && !deadline.expired()) std::this_thread::sleep_for(milliseconds(5));
    EXPECT_FALSE(is_alive(pid)) << pid;
  }
}

class LauncherTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "launcher.XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<Json> events() const {
    std::vector<Json> all;
    std::ifstream in(folder_ + "/harness.jsonl");
    for (std::string line; std::getline(in, line);) all.push_back(parse_json(line, "harness"));
    return all;
  }
  Json event(const std::string& kind) const {
    for (const Json& each : events()) {
      if (each.at("kind") == kind) return each;
    }
    return nullptr;
  }

  std::string folder_;
};

TEST_F(LauncherTest, ForwardsOutputByRankAndSeesANormalEnd) {
  Heard heard;
  LaunchRequest request = request_for("ok", heard);
  request.environment = {{"GREETING", "a = \"b\" and $HOME"}};
  request.trace_directory = folder_;
  const LaunchResult result = launch(request);
  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(result.first_death);
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(
        heard.has(r, "hello from " + std::to_string(r) + " with a = \"b\" and $HOME and 1 thread"))
        << heard.text();
    EXPECT_TRUE(heard.has(r, "to stderr"));
    EXPECT_TRUE(heard.has(r, "no newline at the end"));
    EXPECT_EQ(result.ranks[static_cast<std::size_t>(r)].exit_code, 0);
  }
  EXPECT_EQ(heard.pids.size(), 4u);
  expect_gone(heard.pids);
  EXPECT_EQ(events().front().at("kind"), "start");
  EXPECT_EQ(event("start").at("ranks"), 4);
  EXPECT_EQ(event("exit").at("code"), 0);
  EXPECT_EQ(event("death"), nullptr);
}

TEST_F(LauncherTest, AFailedRankIsReportedAndTheOthersAreEnded) {
  Heard heard;
  const LaunchResult result = launch(request_for("exit3", heard));
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.timed_out);
  EXPECT_FALSE(result.first_death) << result.first_death->rank;
  EXPECT_EQ(result.ranks[1].exit_code, 3);
  EXPECT_EQ(result.ranks[1].error, "the config is wrong");
  EXPECT_TRUE(result.ranks[1].finished);
  EXPECT_FALSE(result.ranks[0].finished);
  expect_gone(heard.pids);
}

TEST_F(LauncherTest, AKilledRankIsNamedWithItsPlaceWithinHalfASecond) {
  for (const bool fault_tolerant : {true, false}) {
    Heard heard;
    LaunchRequest request = request_for("kill", heard);
    request.fault_tolerant = fault_tolerant;
    request.trace_directory = folder_;
    const double begin = now();
    const LaunchResult result = launch(request);
    EXPECT_FALSE(result.ok());
    EXPECT_FALSE(result.timed_out);
    ASSERT_TRUE(result.first_death) << heard.text();
    EXPECT_EQ(result.first_death->rank, 2);
    EXPECT_EQ(result.first_death->place, "step 13, backward");
    EXPECT_GT(heard.killed_at, begin);
    EXPECT_LT(begin + result.first_death->noticed_seconds - heard.killed_at, 0.5);
    EXPECT_FALSE(result.ranks[2].exit_code);
    EXPECT_EQ(heard.pids.size(), 8u) << heard.text();
    expect_gone(heard.pids);
    EXPECT_EQ(event("death").at("rank"), 2);
    EXPECT_EQ(event("death").at("phase"), "backward");
    EXPECT_EQ(event("deadline"), nullptr);
  }
}

TEST_F(LauncherTest, LeavingWithoutDoneIsADeath) {
  Heard heard;
  const LaunchResult result = launch(request_for("deserts", heard));
  EXPECT_FALSE(result.ok());
  EXPECT_TRUE(result.first_death);
  expect_gone(heard.pids);
}

TEST_F(LauncherTest, AHangEndsAtTheDeadlineAlsoWhenRanksIgnoreSigterm) {
  Heard heard;
  LaunchRequest request = request_for("stubborn", heard);
  request.deadline = seconds(10);  // a process with LibTorch may need seconds to start
  request.trace_directory = folder_;
  const LaunchResult result = launch(request);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.first_death);
  EXPECT_GE(result.seconds, 10);
  EXPECT_LT(result.seconds, 20);
  EXPECT_EQ(heard.pids.size(), 8u) << heard.text();
  expect_gone(heard.pids);
  EXPECT_NE(event("deadline"), nullptr);
}

ErrorKind kind_of(const LaunchRequest& request, std::string* text = nullptr) {
  try {
    launch(request);
  } catch (const Error& error) {
    if (text) *text = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no Error";
  return ErrorKind::numeric;
}

TEST_F(LauncherTest, BadInputIsNamed) {
  Heard heard;
  LaunchRequest request = request_for("ok", heard);
  std::string text;
  request.hostfile = folder_ + "/absent";
  EXPECT_EQ(kind_of(request, &text), ErrorKind::bad_input);
  EXPECT_NE(text.find("/absent"), std::string::npos) << text;
  std::ofstream(folder_ + "/empty") << "# nobody\n\n";
  request.hostfile = folder_ + "/empty";
  EXPECT_EQ(kind_of(request), ErrorKind::bad_input);

  request = request_for("ok", heard);
  request.ranks = 0;
  EXPECT_EQ(kind_of(request), ErrorKind::bad_input);
  request = request_for("ok", heard);
  request.command.clear();
  EXPECT_EQ(kind_of(request), ErrorKind::bad_input);
  request = request_for("ok", heard);
  request.mpirun = folder_ + "/mpirun";
  EXPECT_EQ(kind_of(request, &text), ErrorKind::environment);
  EXPECT_NE(text.find(folder_ + "/mpirun"), std::string::npos) << text;
}

TEST_F(LauncherTest, RanksThatNeverConnectAreAnErrorWithWhatMpirunSaid) {
  Heard heard;
  LaunchRequest request = request_for("early", heard);
  std::string text;
  EXPECT_EQ(kind_of(request, &text), ErrorKind::environment);
  EXPECT_NE(text.find("code 7"), std::string::npos) << text;
  request.command = {folder_ + "/absent"};
  EXPECT_EQ(kind_of(request, &text), ErrorKind::environment);
  EXPECT_NE(text.find("absent"), std::string::npos) << text;
  request.command = {"/bin/sleep", "60"};
  request.connect_deadline = milliseconds(500);
  const LaunchResult result = launch(request);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_NE(result.ranks[3].error.find("connect"), std::string::npos);
}

TEST_F(LauncherTest, AHostfileIsPassedOn) {
  Heard heard;
  LaunchRequest request = request_for("ok", heard);
  request.hostfile = folder_ + "/hosts";
  std::ofstream(request.hostfile) << "localhost slots=4\n";
  EXPECT_TRUE(launch(request).ok()) << heard.text();
}

// ---- a launcher in a process of its own, ended from outside ----

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

TEST(FindMpirun, FindsTheOneBesideTheLibrary) {
  EXPECT_EQ(access(find_mpirun().c_str(), X_OK), 0) << find_mpirun();
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  const std::string verb = argc == 3 ? argv[1] : "";
  if (verb == "--rank") return shardproof::rank_main(argv[2]);
  if (verb == "--launch") return shardproof::launcher_main(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

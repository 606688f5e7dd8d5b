// ctest: comm timeout=60 processors=2 lock=mpi
// Two network namespaces with a cable, and a real mpirun over both. Skipped without root.
#include "harness/two_nodes.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "base/error.h"
#include "harness/launcher.h"

namespace shardproof {
namespace {

using std::chrono::seconds;

// Empty, with the reason in the test's output, where this machine cannot make nodes.
std::optional<std::string> why_not() {
  try {
    const TwoNodes nodes;
    return std::nullopt;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) throw;
    return error.what();
  }
}

class Nodes : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = why_not()) GTEST_SKIP() << *reason;
  }
};

bool ends(int process) {
  pollfd ended{process, POLLIN, 0};
  return ::poll(&ended, 1, 10'000) == 1;
}

int watched(pid_t pid) {
  return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
}

std::string said_on(const TwoNodes& nodes, int node, const std::string& script) {
  const ChildResult done = run_child(nodes.on(node, {"/bin/sh", "-c", script}), seconds(10));
  EXPECT_EQ(done.exit_code, 0) << done.output;
  return done.output;
}

TEST_F(Nodes, HaveNamesAndNetworksOfTheirOwn) {
  const TwoNodes nodes;
  EXPECT_EQ(said_on(nodes, 0, "cat /proc/sys/kernel/hostname"), nodes.name(0) + "\n");
  EXPECT_EQ(said_on(nodes, 1, "cat /proc/sys/kernel/hostname"), nodes.name(1) + "\n");
  EXPECT_NE(nodes.name(0), nodes.name(1));
  EXPECT_NE(said_on(nodes, 0, "readlink /proc/self/ns/net"),
            said_on(nodes, 1, "readlink /proc/self/ns/net"));
  EXPECT_NE(said_on(nodes, 0, "cat /proc/net/dev").find("cable"), std::string::npos);
  EXPECT_EQ(said_on(nodes, 0, "cat /proc/net/dev").find("eth0"), std::string::npos);
}

TEST_F(Nodes, AnMpirunOnTheFirstStartsARankOnEach) {
  const TwoNodes nodes;
  const std::string mpirun = find_mpirun();
  if (mpirun.empty()) GTEST_SKIP() << "no mpirun";
  auto variables = nodes.environment();
  for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"}) {
    variables[name] = "1";
  }
  const std::uint64_t before = nodes.bytes_sent(1);
  const ChildResult done = run_child(nodes.on(0, {mpirun, "-n", "2", "--hostfile", nodes.hostfile(),
                                                  "cat", "/proc/sys/kernel/hostname"}),
                                     seconds(30), variables);
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_NE(done.output.find(nodes.name(0)), std::string::npos) << done.output;
  EXPECT_NE(done.output.find(nodes.name(1)), std::string::npos) << done.output;
  EXPECT_GT(nodes.bytes_sent(1), before);
}

TEST_F(Nodes, AnUnknownHostIsRefusedByTheAgent) {
  const TwoNodes nodes;
  const std::string agent = nodes.environment().at("PRTE_MCA_plm_ssh_agent");
  const ChildResult done = run_child({agent, "elsewhere", "true"}, seconds(10));
  EXPECT_EQ(done.exit_code, 255);
  EXPECT_EQ(done.output, "no node elsewhere\n");
}

TEST_F(Nodes, NothingIsLeftWhenTheyEnd) {
  std::optional<TwoNodes> nodes(std::in_place);
  const std::string folder = nodes->folder();
  const int holders[] = {watched(nodes->holder(0)), watched(nodes->holder(1))};
  nodes.reset();
  for (const int holder : holders) EXPECT_TRUE(ends(holder));
  EXPECT_NE(::access(folder.c_str(), F_OK), 0);
}

TEST_F(Nodes, TheyEndWithTheirProcessHoweverItDies) {
  int pids[2];
  ASSERT_EQ(::pipe(pids), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const TwoNodes nodes;
    const pid_t mine[] = {nodes.holder(0), nodes.holder(1)};
    if (::write(pids[1], mine, sizeof mine) != sizeof mine) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(pids[1]);
  pid_t theirs[2] = {};
  ASSERT_EQ(::read(pids[0], theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
  ::close(pids[0]);
  const int holders[] = {watched(theirs[0]), watched(theirs[1])};
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  for (const int holder : holders) EXPECT_TRUE(ends(holder));
  const RunFolder next;  // removes the folder of the killed one
}

// What the ladder then calls "not verified".
TEST(NodesWithoutRights, AreAnErrorOfTheEnvironmentThatSaysWhatIsMissing) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr uid_t nobody = 65534;
    if (::geteuid() == 0 && ::setuid(nobody) != 0) ::_exit(1);
    try {
      const TwoNodes nodes;
    } catch (const Error& error) {
      const bool named = std::string(error.what()).find("not root") != std::string::npos;
      ::_exit(error.kind() == ErrorKind::environment && named ? 0 : 2);
    }
    ::_exit(3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace shardproof

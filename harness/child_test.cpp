// ctest: unit timeout=30
#include "harness/child.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

TEST(Child, KeepsOutputAndExitCode) {
  const auto result = run_child({"sh", "-c", "echo out; echo err >&2; exit 3"}, seconds(10));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.timed_out);
  EXPECT_EQ(result.output, "out\nerr\n");
}

TEST(Child, PassesItsEnvironment) {
  const auto result =
      run_child({"sh", "-c", "echo $SHARDPROOF_X"}, seconds(10), {{"SHARDPROOF_X", "7"}});
  EXPECT_EQ(result.output, "7\n");
}

TEST(Child, ReportsASignal) {
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}, seconds(10)).exit_code, 128 + 9);
}

TEST(Child, EndsTheWholeGroupAtTheDeadline) {
  // The grandchild holds the pipe too: only killing the group ends both.
  const auto result = run_child({"sh", "-c", "sleep 60 & sleep 60"}, milliseconds(200));
  EXPECT_TRUE(result.timed_out);
  EXPECT_EQ(result.exit_code, 128 + 9);
}

TEST(Child, EndsAChildThatClosedItsOutput) {
  const auto result = run_child({"sh", "-c", "exec >&- 2>&-; exec sleep 60"}, milliseconds(200));
  EXPECT_TRUE(result.timed_out);
}

TEST(Child, NamesAProgramThatIsNotThere) {
  try {
    run_child({"/no/such/program"}, seconds(1));
    FAIL() << "expected an Error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    EXPECT_EQ(error.place(), "/no/such/program");
  }
}

TEST(LookedAtChild, SaysWhenItHasEndedAndKeepsWhatItPrinted) {
  Child child({"sh", "-c", "echo out; echo err >&2; exit 3"}, seconds(60));
  while (!child.ended(milliseconds(50))) {
  }
  EXPECT_EQ(child.result().exit_code, 3);
  EXPECT_FALSE(child.result().timed_out);
  EXPECT_EQ(child.result().output, "out\nerr\n");
}

TEST(LookedAtChild, GoesOnUntilItsDeadlineOrItsOwnersEnd) {
  Child late({"sh", "-c", "sleep 60 & sleep 60"}, milliseconds(200));
  EXPECT_TRUE(late.ended(seconds(60)));  // cut short by the deadline
  EXPECT_TRUE(late.result().timed_out);
  pid_t pid = -1;
  {
    Child left({"sleep", "60"}, seconds(60));
    pid = left.pid();
    EXPECT_FALSE(left.ended());
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

// SIGKILL leaves its parent no time to end it.
TEST(LookedAtChild, DiesWithAParentThatIsKilled) {
  int said[2];
  ASSERT_EQ(::pipe(said), 0);
  const pid_t parent = ::fork();
  if (parent == 0) {
    const Child child({"sleep", "60"}, seconds(60));
    const pid_t pid = child.pid();
    if (::write(said[1], &pid, sizeof pid) != sizeof pid) ::_exit(1);
    for (;;) ::pause();
  }
  pid_t pid = -1;
  ASSERT_EQ(::read(said[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  ASSERT_GE(fd, 0);
  ::kill(parent, SIGKILL);
  ::waitpid(parent, nullptr, 0);
  pollfd exited{fd, POLLIN, 0};
  EXPECT_EQ(::poll(&exited, 1, 20000), 1);
  for (const int each : {fd, said[0], said[1]}) ::close(each);
}

TEST(Child, KnowsItsOwnPath) {
  EXPECT_NE(own_executable().find("child"), std::string::npos);
}

}  // namespace
}  // namespace shardproof

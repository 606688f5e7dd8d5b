// ctest: unit
#include "harness/process_tree.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "base/clock.h"
#include "base/error.h"

namespace shardproof {
namespace {

using std::chrono::seconds;

bool ends(ProcessTree& tree, Duration patience = seconds(20)) {
  const Deadline deadline = Deadline::after(patience);
  while (!tree.ended() && !deadline.expired()) {
    pollfd ready{.fd = tree.fd(), .events = POLLIN, .revents = 0};
    poll(&ready, 1, 20);
  }
  return tree.ended();
}

std::string read_lines(const ProcessTree& tree, std::size_t lines) {
  std::string text;
  const Deadline deadline = Deadline::after(seconds(20));
  while (!deadline.expired() &&
         static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) < lines) {
    pollfd ready{.fd = tree.output(), .events = POLLIN, .revents = 0};
    poll(&ready, 1, 20);
    char bytes[4096];
    const ssize_t count = read(tree.output(), bytes, sizeof bytes);
    if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
  }
  return text;
}

bool is_alive(int pid) {
  return kill(pid, 0) == 0;
}

TEST(ProcessTree, RunsAProgramWithItsEnvironment) {
  ProcessTree tree({"/bin/sh", "-c", "echo $SHARDPROOF_TEST_NEW; echo err >&2; cat; exit 5"},
                   {{"SHARDPROOF_TEST_NEW", "a b=c"}});
  EXPECT_EQ(read_lines(tree, 2), "a b=c\nerr\n");
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 5);
  EXPECT_EQ(tree.killed(), 0);
}

TEST(ProcessTree, WhatTheProgramLeavesBehindIsKilled) {
  ProcessTree tree({"/bin/sh", "-c", "setsid sleep 1000 & echo $!; trap '' TERM; sleep 0.1"}, {});
  const int pid = std::stoi(read_lines(tree, 1));
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 0);
  EXPECT_EQ(tree.killed(), 1);
  EXPECT_FALSE(is_alive(pid));
}

TEST(ProcessTree, WhatIsLeftBehindMayEndByItselfInItsGrace) {
  ProcessTree tree({"/bin/sh", "-c", "(sleep 0.2; exit 7) & exit 3"}, {}, seconds(15));
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 3);
  EXPECT_EQ(tree.killed(), 0);
}

TEST(ProcessTree, KillAllReachesGrandchildrenInOtherSessions) {
  ProcessTree tree(
      {"/bin/sh", "-c", "(setsid sh -c 'echo $$; sleep 1000 & echo $!; wait' &) ; sleep 1000"}, {});
  const std::string pids = read_lines(tree, 2);
  const int session = std::stoi(pids);
  const int below = std::stoi(pids.substr(pids.find('\n')));
  EXPECT_TRUE(is_alive(session));
  EXPECT_TRUE(is_alive(below));
  EXPECT_FALSE(tree.ended());
  tree.kill_all();
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 128 + SIGKILL);
  EXPECT_GE(tree.killed(), 3) << "the program, the session and what is below";
  EXPECT_FALSE(is_alive(session));
  EXPECT_FALSE(is_alive(below));
}

TEST(ProcessTree, AskToEndIsSigterm) {
  ProcessTree tree(
      {"/bin/sh", "-c", "trap 'exit 9' TERM; echo ready; while :; do sleep 0.05; done"}, {});
  read_lines(tree, 1);
  tree.ask_to_end();
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 9);
  tree.ask_to_end();  // nothing to do any more
  tree.kill_all();
}

TEST(ProcessTree, TheDestructorLeavesNothing) {
  int pid = 0;
  {
    ProcessTree tree({"/bin/sh", "-c", "echo $$; sleep 1000"}, {});
    pid = std::stoi(read_lines(tree, 1));
    EXPECT_TRUE(is_alive(pid));
  }
  EXPECT_FALSE(is_alive(pid));
}

TEST(ProcessTree, WhatCannotBeStarted) {
  EXPECT_THROW(ProcessTree({"/nowhere/program"}, {}), Error);
  ProcessTree tree({"/tmp"}, {});  // executable, but no program
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 127);
  EXPECT_DEATH(ProcessTree({}, {}), "no command");
}

// Nobody has asked yet whether it ended: the order meets a watcher that is gone.
TEST(ProcessTree, AnOrderBehindTheEndIsNoSignal) {
  ProcessTree tree({"/usr/bin/env", "true"}, {});
  const Deadline deadline = Deadline::after(seconds(20));
  pollfd gone{.fd = tree.fd(), .events = 0, .revents = 0};
  while ((gone.revents & POLLHUP) == 0 && !deadline.expired()) poll(&gone, 1, 100);
  ASSERT_NE(gone.revents & POLLHUP, 0);
  tree.kill_all();
  tree.ask_to_end();
  EXPECT_TRUE(ends(tree));
  EXPECT_EQ(tree.exit_code(), 0);
}

}  // namespace
}  // namespace shardproof

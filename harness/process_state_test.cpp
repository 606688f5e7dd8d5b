// ctest: unit timeout=60
#include "harness/process_state.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace shardproof {
namespace {

// A child that stops itself, and goes on when it is told to.
class Stopped : public testing::Test {
 protected:
  Stopped() : pid_(fork()) {
    if (pid_ == 0) {
      raise(SIGSTOP);
      for (;;) pause();
    }
    int status = 0;
    waitpid(pid_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~Stopped() override { end(); }
  void end() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid_;
};

TEST_F(Stopped, IsWhatTheKernelSays) {
  EXPECT_EQ(process_state(pid_), 'T');
  EXPECT_EQ(process_state(getpid()), 'R') << "the one that asks runs";
  const pid_t gone = pid_;
  end();
  EXPECT_EQ(process_state(gone), std::nullopt);
}

TEST_F(Stopped, RanksAreTakenDownOnceAndRememberedWhenGone) {
  StoppedRanks ranks{Duration{}};
  ranks.watch(0, getpid());
  ranks.watch(2, pid_);
  ranks.watch(3, 0);  // not known
  EXPECT_FALSE(ranks.first());
  EXPECT_EQ(ranks.look(), std::vector<int>{2});
  EXPECT_TRUE(ranks.is_stopped(2));
  EXPECT_FALSE(ranks.is_stopped(0));
  EXPECT_FALSE(ranks.is_stopped(3));
  EXPECT_EQ(ranks.first(), 2);
  EXPECT_EQ(ranks.look(), std::vector<int>()) << "known already";
  end();
  EXPECT_EQ(ranks.look(), std::vector<int>());
  EXPECT_TRUE(ranks.is_stopped(2)) << "it was killed where it stood";
  ranks.forget(2);
  EXPECT_FALSE(ranks.is_stopped(2));
}

TEST_F(Stopped, RanksAreNotLookedAtAllTheTime) {
  StoppedRanks ranks{std::chrono::hours(1)};
  EXPECT_EQ(ranks.look(), std::vector<int>());
  ranks.watch(1, pid_);
  EXPECT_EQ(ranks.look(), std::vector<int>()) << "an hour has not passed";
}

TEST_F(Stopped, OneThatGoesOnIsStoppedNoMore) {
  StoppedRanks ranks{Duration{}};
  ranks.watch(1, pid_);
  EXPECT_EQ(ranks.look(), std::vector<int>{1});
  kill(pid_, SIGCONT);
  int status = 0;
  waitpid(pid_, &status, WCONTINUED);
  EXPECT_TRUE(WIFCONTINUED(status));
  EXPECT_EQ(ranks.look(), std::vector<int>());
  EXPECT_FALSE(ranks.is_stopped(1));
}

}  // namespace
}  // namespace shardproof

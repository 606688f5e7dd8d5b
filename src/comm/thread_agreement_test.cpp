// ctest: comm
// What the interface cannot show: a rank that dies after it has brought its proposal.
#include "comm/thread_agreement.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace shardproof::internal {
namespace {

Deadline soon() {
  return Deadline::after(std::chrono::seconds(10));
}

class Agreement : public testing::Test {
 protected:
  Agreement() { registry_->add(group_, nullptr); }

  // Rank 1 takes part by `join` and is killed once its proposal lies there.
  void die_waiting(const std::function<void()>& join,
                   const std::map<std::uint64_t, ThreadGroup::Round>& rounds) {
    std::thread dying([&] {
      try {
        join();
        ADD_FAILURE() << "a dead rank was given a decision";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::peer_died);
        EXPECT_EQ(error.world_rank(), 1);
      }
    });
    const Deadline deadline = soon();
    const auto proposed = [&] {
      const std::lock_guard lock(group_->mutex);
      const auto round = rounds.find(0);
      return round != rounds.end() && round->second.proposals.contains(1);
    };
    while (!proposed() && !deadline.expired()) std::this_thread::yield();
    EXPECT_TRUE(proposed());
    registry_->kill(1);
    dying.join();
  }

  std::shared_ptr<ThreadRegistry> registry_ =
      std::make_shared<ThreadRegistry>(2, std::chrono::seconds(10));
  std::shared_ptr<ThreadGroup> group_ =
      std::make_shared<ThreadGroup>(registry_, nullptr, Group{"world", {0, 1}});
};

TEST_F(Agreement, FlagsOfARankThatDiedWaitingDoNotCount) {
  die_waiting([&] { agree(*group_, 1, 0, 0b10, soon()); }, group_->agreements);
  EXPECT_EQ(agree(*group_, 0, 0, 0b01, soon()).flags, 0b01u);
}

TEST_F(Agreement, ARankThatDiedWaitingIsNotInTheShrunkenGroup) {
  die_waiting([&] { shrink(*group_, 1, 0, "rest", soon()); }, group_->shrinks);
  const Decision decision = shrink(*group_, 0, 0, "rest", soon());
  ASSERT_NE(decision.child, nullptr);
  EXPECT_EQ(decision.child->group.world_ranks, std::vector<int>{0});
  EXPECT_EQ(decision.child_rank, 0);
  EXPECT_FALSE(decision.child->broken());
}

TEST_F(Agreement, ASplitThatARankNeverJoinsIsATimeout) {
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(20));
  try {
    split(*group_, 0, 0, {0, 0, 0, "dp"}, deadline);
    ADD_FAILURE() << "split without rank 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout);
  }
  EXPECT_TRUE(group_->broken());
}

}  // namespace
}  // namespace shardproof::internal

// ctest: unit
// A decorator that overrides nothing changes nothing, and its children are decorated again.
#include "comm/forwarding_communicator.h"

#include <gtest/gtest.h>

#include "comm/thread_communicator.h"

namespace shardproof {
namespace {

class Plain : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override {
    return std::make_unique<Plain>(std::move(child));
  }
};

Deadline soon() {
  return Deadline::after(std::chrono::seconds(10));
}

TEST(ForwardingCommunicator, HandsEverythingOn) {
  ThreadWorld world(1, std::chrono::seconds(9));
  Plain comm(world.communicator(0));
  EXPECT_EQ(comm.rank(), 0);
  EXPECT_EQ(comm.size(), 1);
  EXPECT_EQ(comm.group().name, "world");
  EXPECT_EQ(comm.timeout(), std::chrono::seconds(9));
  barrier(comm);
  comm.start(Call{}, nullptr)->wait(soon());
  EXPECT_EQ(comm.traffic().calls, 2u);
  EXPECT_EQ(comm.agree(6, soon()), 6u);
  EXPECT_TRUE(comm.failed_ranks().empty());
  EXPECT_FALSE(comm.poisoned());
  comm.revoke();
  EXPECT_TRUE(comm.poisoned());
  world.kill(0);
  EXPECT_EQ(comm.failed_ranks(), std::vector<int>{0});
}

TEST(ForwardingCommunicator, AbortReachesTheBackend) {
  ThreadWorld world(1);
  Plain comm(world.communicator(0));
  comm.abort();
  EXPECT_TRUE(comm.poisoned());
}

TEST(ForwardingCommunicator, DecoratesChildrenAndKeepsNoChildNull) {
  ThreadWorld world(1);
  Plain comm(world.communicator(0));
  EXPECT_NE(dynamic_cast<Plain*>(comm.split(0, 0, "dp", soon()).get()), nullptr);
  EXPECT_EQ(comm.split(-1, 0, "dp", soon()), nullptr);
  EXPECT_NE(dynamic_cast<Plain*>(comm.shrink("rest", soon()).get()), nullptr);
}

TEST(ForwardingCommunicatorDeathTest, NeedsACommunicator) {
  EXPECT_DEATH(Plain(nullptr), "needs a communicator");
}

}  // namespace
}  // namespace shardproof

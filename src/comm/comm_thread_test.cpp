// ctest: unit
// The communication thread: order, idleness, what happens to tasks that are left.
#include "comm/comm_thread.h"

#include <gtest/gtest.h>

#include <atomic>

namespace shardproof {
namespace {

Deadline soon() {
  return Deadline::after(std::chrono::seconds(10));
}

TEST(CommThread, CarriesOutTasksInOrder) {
  std::vector<int> order;
  {
    CommThread thread;
    EXPECT_TRUE(thread.wait_idle(Deadline::after(Duration::zero())));  // nothing was posted
    for (int i = 0; i < 100; ++i) thread.post([&order, i] { order.push_back(i); });
    EXPECT_TRUE(thread.wait_idle(soon()));
    ASSERT_EQ(order.size(), 100u);
    for (int i = 0; i < 100; ++i) thread.post([&order, i] { order.push_back(100 + i); });
  }  // the destructor carries out what is left
  ASSERT_EQ(order.size(), 200u);
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(CommThread, IsNotIdleWhileATaskRuns) {
  CommThread thread;
  std::atomic<bool> go{false};
  thread.post([&] {
    while (!go) std::this_thread::yield();
  });
  EXPECT_FALSE(thread.wait_idle(Deadline::after(std::chrono::milliseconds(20))));
  go = true;
  EXPECT_TRUE(thread.wait_idle(soon()));
}

TEST(CommThread, ATaskIsDestroyedBeforeTheThreadIsIdle) {
  CommThread thread;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  thread.post([held = std::move(held)] {});
  ASSERT_TRUE(thread.wait_idle(soon()));
  EXPECT_TRUE(watched.expired());
}

TEST(AsyncCall, KeepsUntilComplete) {
  auto buffer = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = buffer;
  AsyncCall call(std::move(buffer));
  EXPECT_FALSE(call.done());
  EXPECT_FALSE(watched.expired());
  EXPECT_FALSE(call.wait(Deadline::after(Duration::zero())));
  call.complete(std::nullopt);
  EXPECT_TRUE(call.done());
  EXPECT_TRUE(watched.expired());
  EXPECT_TRUE(call.wait(Deadline::after(Duration::zero())));
  EXPECT_NO_THROW(call.rethrow());
}

TEST(AsyncCall, RethrowsAsOftenAsAsked) {
  AsyncCall call(nullptr);
  call.complete(Error(ErrorKind::timeout, "here", "late"));
  for (int i = 0; i < 2; ++i) EXPECT_THROW(call.rethrow(), Error);
}

}  // namespace
}  // namespace shardproof

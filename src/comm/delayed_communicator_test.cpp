// ctest: comm
// The delay is slept on the given clock, hidden behind work done in between, and never longer than
// the deadline. All on a virtual clock.
#include "comm/delayed_communicator.h"

#include <gtest/gtest.h>

#include "comm/conformance_semantics.h"
#include "comm/conformance_threads.h"
#include "comm/stack.h"

namespace shardproof {
namespace {

using conformance::kind_of_error;
using conformance::patience;
using std::chrono::microseconds;

class Delayed : public testing::Test {
 protected:
  std::unique_ptr<DelayedCommunicator> lone(CommunicationDelay delay) {
    return std::make_unique<DelayedCommunicator>(world_.communicator(0), delay, clock_);
  }
  VirtualClock clock_;
  ThreadWorld world_{1};
};

TEST_F(Delayed, ASynchronousCallTakesLatencyAndBytesOverBandwidth) {
  const auto comm = lone({microseconds(10), 1e6});  // a byte a microsecond
  barrier(*comm);
  EXPECT_EQ(clock_.now(), microseconds(10));
  std::int64_t data[5] = {};
  all_reduce(*comm, data, data, 5, Dtype::i64, ReduceOp::sum);
  EXPECT_EQ(clock_.now(), microseconds(10 + 10 + 40));
}

TEST_F(Delayed, WithoutBandwidthOnlyTheLatencyCounts) {
  const auto comm = lone({microseconds(3), 0});
  std::int64_t data[1000] = {};
  broadcast(*comm, data, 1000, Dtype::i64, 0);
  EXPECT_EQ(clock_.now(), microseconds(3));
}

TEST_F(Delayed, AStartedCallIsHiddenBehindWork) {
  const auto comm = lone({microseconds(100), 0});
  auto work = comm->start(Call{}, nullptr);
  EXPECT_EQ(clock_.now(), Duration::zero());  // start does not sleep
  EXPECT_FALSE(work->done());
  clock_.advance(microseconds(70));
  work->wait(patience());
  EXPECT_EQ(clock_.now(), microseconds(100));
  EXPECT_TRUE(work->done());
  work->wait(patience());
  EXPECT_EQ(clock_.now(), microseconds(100));
}

TEST_F(Delayed, StartedCallsFollowEachOther) {
  const auto comm = lone({microseconds(100), 0});
  auto first = comm->start(Call{}, nullptr);
  auto second = comm->start(Call{}, nullptr);
  second->wait(patience());
  EXPECT_EQ(clock_.now(), microseconds(200));
  first->wait(patience());
  EXPECT_EQ(clock_.now(), microseconds(200));
}

TEST_F(Delayed, ADelayBeyondTheDeadlineIsATimeoutAndPoisons) {
  for (const bool started : {false, true}) {
    ThreadWorld world(1);
    DelayedCommunicator comm(world.communicator(0), {microseconds(100), 0}, clock_);
    const Deadline deadline = Deadline::after(microseconds(40), clock_);
    const Duration begin = clock_.now();
    const auto call = [&] {
      if (started) return comm.start(Call{}, nullptr)->wait(deadline);
      comm.run(Call{}, deadline);
    };
    EXPECT_EQ(kind_of_error(call, "delayed"), ErrorKind::timeout);
    EXPECT_EQ(clock_.now() - begin, microseconds(40));
    EXPECT_TRUE(comm.poisoned());
  }
}

TEST_F(Delayed, ChildrenAreDelayedToo) {
  const auto comm = lone({microseconds(10), 0});
  auto child = comm->split(0, 0, "dp", patience());
  barrier(*child);
  EXPECT_EQ(clock_.now(), microseconds(10));
  auto shrunken = comm->shrink("rest", patience());
  barrier(*shrunken);
  EXPECT_EQ(clock_.now(), microseconds(20));
}

using DelayedDeathTest = Delayed;
TEST_F(DelayedDeathTest, RefusesNegativeDelays) {
  EXPECT_DEATH(lone({microseconds(-1), 0}), "0 vs -1000");
  EXPECT_DEATH(lone({microseconds(1), -1}), "0 vs -1");
}

TEST(Stack, WithoutOptionsIsTheBackendItself) {
  ThreadWorld world(1);
  auto backend = world.communicator(0);
  Communicator* const before = backend.get();
  EXPECT_EQ(wrap(std::move(backend), {}).get(), before);
}

// The recorder sees the delay: it is outside.
TEST(Stack, RecordsOutsideTheDelay) {
  ThreadWorld world(1);
  StackOptions options;
  options.recorder = std::make_shared<FlightRecorder>(0);
  options.delay = CommunicationDelay{std::chrono::milliseconds(2), 0};
  const auto comm = wrap(world.communicator(0), options);
  barrier(*comm);
  const auto last = options.recorder->last();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_GE(last[0].ended - last[0].started, std::chrono::milliseconds(2));
}

}  // namespace
}  // namespace shardproof

// ctest: comm
// The flight recorder and its decorator: what is kept, what is counted, what a dump says.
#include "comm/recorded_communicator.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "comm/conformance_semantics.h"
#include "comm/conformance_threads.h"

namespace shardproof {
namespace {

using conformance::kind_of_error;
using State = FlightRecord::State;

FlightRecord record(CallKind kind, std::size_t count) {
  FlightRecord record;
  record.group = "world";
  record.kind = kind;
  record.send_count = count;
  return record;
}

TEST(FlightRecorder, KeepsTheLastOperationsOldestFirst) {
  VirtualClock clock;
  FlightRecorder recorder(3, 2, clock);
  EXPECT_TRUE(recorder.last().empty());
  for (std::size_t i = 0; i < 5; ++i) {
    clock.advance(Duration(10));
    const std::uint64_t id = recorder.begin(record(CallKind::all_reduce, i));
    EXPECT_EQ(id, i);
    clock.advance(Duration(1));
    if (i != 4) recorder.end(id, i == 3 ? State::failed : State::completed);
  }
  const auto last = recorder.last();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0].id, 3u);
  EXPECT_EQ(last[0].sequence, 3u);
  EXPECT_EQ(last[0].state, State::failed);
  EXPECT_EQ(last[0].started, Duration(43));
  EXPECT_EQ(last[0].ended, Duration(44));
  EXPECT_EQ(last[1].send_count, 4u);
  EXPECT_EQ(last[1].state, State::started);
}

TEST(FlightRecorder, AnEndThatComesAfterTheRecordIsGoneChangesNothing) {
  FlightRecorder recorder(0, 1);
  const std::uint64_t first = recorder.begin(record(CallKind::barrier, 0));
  recorder.begin(record(CallKind::reduce, 1));
  recorder.end(first, State::failed);
  ASSERT_EQ(recorder.last().size(), 1u);
  EXPECT_EQ(recorder.last()[0].state, State::started);
}

TEST(FlightRecorder, NumbersCollectivesPerGroupAndMessagesPerPeerAndTag) {
  FlightRecorder recorder(0);
  const auto sequence = [&](FlightRecord record) {
    recorder.begin(std::move(record));
    return recorder.last().back().sequence;
  };
  const auto send_to = [](int peer, int tag) {
    FlightRecord message = record(CallKind::send, 1);
    message.peer = peer;
    message.tag = tag;
    return message;
  };
  FlightRecord other = record(CallKind::barrier, 0);
  other.group = "world/dp.0";
  EXPECT_EQ(sequence(record(CallKind::barrier, 0)), 0u);
  EXPECT_EQ(sequence(record(CallKind::all_reduce, 0)), 1u);
  EXPECT_EQ(sequence(other), 0u);
  EXPECT_EQ(sequence(send_to(1, 0)), 0u);
  EXPECT_EQ(sequence(send_to(1, 1)), 0u);
  EXPECT_EQ(sequence(send_to(1, 0)), 1u);
  EXPECT_EQ(sequence(record(CallKind::barrier, 0)), 2u);
}

TEST(FlightRecorder, CountsAreTakenOnce) {
  FlightRecorder recorder(0, 1);  // counts do not depend on what the ring still holds
  for (int i = 0; i < 3; ++i) recorder.begin(record(CallKind::all_reduce, 10));
  recorder.begin(record(CallKind::barrier, 0));
  auto counts = recorder.take_counts();
  ASSERT_EQ(counts.size(), 2u);
  const auto sums = counts.at({"world", CallKind::all_reduce, Dtype::f32});
  EXPECT_EQ(sums.calls, 3u);
  EXPECT_EQ(sums.elements, 30u);
  EXPECT_TRUE(recorder.take_counts().empty());
}

TEST(FlightRecorderDeathTest, RefusesNoCapacityAndUnknownIds) {
  EXPECT_DEATH(FlightRecorder(0, 0), "0 vs 0");
  FlightRecorder recorder(0);
  EXPECT_DEATH(recorder.end(0, State::completed), "0 vs 0");
}

TEST(RecordedCommunicator, RecordsCallsOfAllItsGroups) {
  conformance::own_on_threads(*std::make_unique<ThreadWorld>(2), [](auto comm) {
    auto recorder = std::make_shared<FlightRecorder>(comm->rank());
    RecordedCommunicator recorded(std::move(comm), recorder);
    std::int64_t value = 1;
    all_reduce(recorded, &value, &value, 1, Dtype::i64, ReduceOp::max);
    auto child = recorded.split(0, 0, "dp", conformance::patience());
    auto work = child->start(Call{}, nullptr);
    EXPECT_EQ(recorder->last().back().state, State::started);
    work->wait(conformance::patience());

    const auto last = recorder->last();
    ASSERT_EQ(last.size(), 2u);
    EXPECT_EQ(last[0].group, "world");
    EXPECT_EQ(last[0].kind, CallKind::all_reduce);
    EXPECT_EQ(last[0].op, ReduceOp::max);
    EXPECT_EQ(last[0].dtype, Dtype::i64);
    EXPECT_EQ(last[0].send_count, 1u);
    EXPECT_EQ(last[0].recv_count, 1u);
    EXPECT_FALSE(last[0].asynchronous);
    EXPECT_EQ(last[0].state, State::completed);
    EXPECT_LE(last[0].started, last[0].ended);
    EXPECT_EQ(last[1].group, "world/dp.0");
    EXPECT_EQ(recorder->records().operations[1].members, (std::vector<int>{0, 1}));
    EXPECT_TRUE(last[1].asynchronous);
    EXPECT_EQ(last[1].state, State::completed);
  });
}

TEST(RecordedCommunicator, AFailureIsRecordedWithItsState) {
  ThreadWorld world(2);
  std::promise<void> revoked;  // a barrier that rank 1 joins before this may well complete
  const std::shared_future<void> after_revoke = revoked.get_future().share();
  conformance::own_on_threads(world, [&](auto comm) {
    auto recorder = std::make_shared<FlightRecorder>(comm->rank());
    RecordedCommunicator recorded(std::move(comm), recorder);
    if (recorded.rank() == 0) {
      auto work = recorded.start(Call{}, nullptr);
      recorded.revoke();
      work.reset();  // nobody waited: it is recorded all the same
      revoked.set_value();
    }
    ASSERT_EQ(after_revoke.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_EQ(kind_of_error([&] { barrier(recorded); }, "barrier"), ErrorKind::revoked);
    EXPECT_EQ(kind_of_error([&] { recorded.split(0, 0, "dp", conformance::patience()); }, "split"),
              ErrorKind::revoked);

    const RankRecords records = recorder->records();
    EXPECT_EQ(records.rank, recorded.rank());
    ASSERT_EQ(records.operations.size(), recorded.rank() == 0 ? 2u : 1u);
    EXPECT_EQ(records.issued.at("world"), records.operations.size());
    for (const OperationRecord& one : records.operations) {
      EXPECT_EQ(one.op, "barrier");
      EXPECT_EQ(one.group, "world");
      EXPECT_EQ(one.members, (std::vector<int>{0, 1}));
      EXPECT_EQ(one.state, OperationRecord::State::failed);
      EXPECT_EQ(one.dtype, "");
    }
    EXPECT_EQ(records.operations.back().sequence, records.operations.size() - 1);
    EXPECT_FALSE(records.operations.back().asynchronous);
  });
}

}  // namespace
}  // namespace shardproof

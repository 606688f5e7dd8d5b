// ctest: comm timeout=120
// Wrong calls of one rank: every rank of the group is told, with the fields and the sides, and no
// buffer is written. Over memory that ranks share, and by messages.
#include "comm/verified_communicator.h"

#include <gtest/gtest.h>

#include <bit>

#include "comm/conformance_semantics.h"
#include "comm/conformance_threads.h"
#include "comm/stack.h"

namespace shardproof {
namespace {

constexpr std::size_t room = 64;
using Buffer = std::vector<double>;

struct Buffers {
  Buffer send = Buffer(room, 1);
  Buffer recv = Buffer(room, -1);
};

using Change = std::function<void(Call&)>;
struct Mistake {
  const char* name;
  CallKind kind;
  Change change;     // of rank 2's call
  const char* says;  // what every rank's error must say
};

Call call_of(CallKind kind, Buffers& buffers) {
  Call call;
  call.kind = kind;
  call.send = buffers.send.data();
  call.recv = buffers.recv.data();
  call.dtype = Dtype::f32;
  call.count = 8;
  call.peer = kind == CallKind::broadcast || kind == CallKind::reduce ? 1 : -1;
  call.send_counts = {2, 2, 2, 2};
  call.recv_counts = {2, 2, 2, 2};
  return call;
}

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"dtype", CallKind::all_reduce, [](Call& call) { call.dtype = Dtype::i32; },
       "dtype: F32 on ranks 0,1,3; I32 on rank 2"},
      {"reduce_op", CallKind::all_reduce, [](Call& call) { call.op = ReduceOp::max; },
       "reduce op: sum on ranks 0,1,3; max on rank 2"},
      {"reduce_op_of_reduce_scatter", CallKind::reduce_scatter,
       [](Call& call) { call.op = ReduceOp::min; }, "reduce op: sum on ranks 0,1,3; min on rank 2"},
      {"count", CallKind::all_reduce, [](Call& call) { call.count = 7; },
       "count: 8 on ranks 0,1,3; 7 on rank 2"},
      {"count_of_broadcast", CallKind::broadcast, [](Call& call) { call.count = 9; },
       "count: 8 on ranks 0,1,3; 9 on rank 2"},
      {"root", CallKind::broadcast, [](Call& call) { call.peer = 2; },
       "root: 1 on ranks 0,1,3; 2 on rank 2"},
      {"root_of_reduce", CallKind::reduce, [](Call& call) { call.peer = 0; },
       "root: 1 on ranks 0,1,3; 0 on rank 2"},
      {"split_of_all_gather", CallKind::all_gather, [](Call& call) { call.recv_counts[3] = 5; },
       "split 3: 2 on ranks 0,1,3; 5 on rank 2"},
      {"split_of_reduce_scatter", CallKind::reduce_scatter,
       [](Call& call) { std::swap(call.recv_counts[0], call.recv_counts[1] = 3); },
       "split 0: 2 on ranks 0,1,3; 3 on rank 2"},
      {"split_of_all_to_all", CallKind::all_to_all, [](Call& call) { call.send_counts[1] = 3; },
       "split: rank 2 sends 3 to rank 1, which expects 2"},
      {"split_that_is_expected", CallKind::all_to_all, [](Call& call) { call.recv_counts[0] = 1; },
       "split: rank 0 sends 2 to rank 2, which expects 1"},
      {"operation", CallKind::all_reduce, [](Call& call) { call.kind = CallKind::reduce_scatter; },
       "operation: all_reduce on ranks 0,1,3; reduce_scatter on rank 2"},
      {"barrier", CallKind::all_gather, [](Call& call) { call.kind = CallKind::barrier; },
       "operation: all_gather on ranks 0,1,3; barrier on rank 2"},
  };
  return all;
}

struct Said {
  ErrorKind kind = ErrorKind::io;
  std::string place;
  std::string detail;
};

Said said_by(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.kind(), error.place(), error.detail()};
  }
  ADD_FAILURE() << "no error";
  return {};
}

void expect_mismatch(const Said& said, const std::string& says) {
  EXPECT_EQ(said.kind, ErrorKind::mismatch) << said.place << ": " << said.detail;
  EXPECT_NE(said.detail.find(says), std::string::npos)
      << "expected '" << says << "', found " << said.place << ": " << said.detail;
}

// Runs the body on verified thread ranks; what was left on another rank's account is printed there.
void on_verified(int ranks, AgreementWay way,
                 const std::function<void(Communicator&, const VerifyOptions&)>& body) {
  ThreadWorld world(ranks, std::chrono::seconds(8));
  conformance::own_on_threads(world, [&](std::unique_ptr<Communicator> backend) {
    StackOptions options;
    options.verify.emplace().way = way;
    const VerifyOptions verify = *options.verify;
    const auto comm = wrap(std::move(backend), options);
    body(*comm, verify);
  });
}

class Mistaken : public testing::TestWithParam<std::tuple<Mistake, AgreementWay, bool>> {};

TEST_P(Mistaken, IsToldToEveryRankBeforeDataMoves) {
  const auto& [mistake, way, started] = GetParam();
  on_verified(4, way, [&, started = started, mistake = mistake](Communicator& comm, const auto&) {
    barrier(comm);
    const auto group = comm.split(0, comm.rank(), "dp", default_deadline(comm));
    Buffers buffers;
    Call call = call_of(mistake.kind, buffers);
    if (comm.rank() == 2) mistake.change(call);
    const Said said = said_by([&] {
      if (started) return group->start(call, nullptr)->wait(default_deadline(comm));
      group->run(call, default_deadline(comm));
    });
    expect_mismatch(said, mistake.says);
    EXPECT_NE(said.place.find("world/dp.0"), std::string::npos) << said.place;
    EXPECT_EQ(buffers.recv, Buffer(room, -1));
    EXPECT_EQ(buffers.send, Buffer(room, 1));
    EXPECT_TRUE(group->poisoned());
    EXPECT_FALSE(comm.poisoned());
    barrier(comm);  // other groups go on
  });
}

INSTANTIATE_TEST_SUITE_P(Calls, Mistaken,
                         testing::Combine(testing::ValuesIn(mistakes()),
                                          testing::Values(AgreementWay::shared_memory,
                                                          AgreementWay::messages),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) == AgreementWay::messages ? "_messages"
                                                                                     : "_memory") +
                                  (std::get<2>(info.param) ? "_started" : "");
                         });

class VerifiedBy : public testing::TestWithParam<AgreementWay> {};
INSTANTIATE_TEST_SUITE_P(Ways, VerifiedBy,
                         testing::Values(AgreementWay::shared_memory, AgreementWay::messages),
                         [](const auto& info) {
                           return info.param == AgreementWay::messages ? "messages" : "memory";
                         });

TEST_P(VerifiedBy, AnOrderThatDiffersIsTold) {
  on_verified(4, GetParam(), [](Communicator& comm, const auto&) {
    Buffers buffers;
    Call first = call_of(CallKind::all_reduce, buffers);
    Call second = first;
    second.count = 16;
    if (comm.rank() == 1) std::swap(first, second);
    const Said said = said_by([&] {
      comm.run(first, default_deadline(comm));
      comm.run(second, default_deadline(comm));
    });
    expect_mismatch(said, "count: 8 on ranks 0,2,3; 16 on rank 1");
    EXPECT_EQ(said.place, "world all_reduce #0");
  });
}

TEST_P(VerifiedBy, ASkippedCallIsToldAtTheNext) {
  on_verified(4, GetParam(), [](Communicator& comm, const auto&) {
    Buffers buffers;
    const Said said = said_by([&] {
      if (comm.rank() != 3) {
        comm.run(call_of(CallKind::all_reduce, buffers), default_deadline(comm));
      }
      barrier(comm);
    });
    expect_mismatch(said, "operation: all_reduce on ranks 0-2; barrier on rank 3");
    EXPECT_EQ(said.place, "world #0");
    EXPECT_EQ(buffers.recv, Buffer(room, -1));
  });
}

TEST_P(VerifiedBy, ASplitIsACallLikeOthers) {
  on_verified(4, GetParam(), [](Communicator& comm, const auto&) {
    const Said said = said_by([&] {
      if (comm.rank() == 0) return barrier(comm);
      comm.split(0, 0, "dp", default_deadline(comm));
    });
    expect_mismatch(said, "operation: split on ranks 1-3; barrier on rank 0");
    EXPECT_EQ(said.place, "world #0");
  });
  on_verified(3, GetParam(), [](Communicator& comm, const auto&) {
    expect_mismatch(
        said_by([&] { comm.split(0, 0, comm.rank() == 1 ? "tp" : "dp", default_deadline(comm)); }),
        "label: dp on ranks 0,2; tp on rank 1");
  });
}

TEST_P(VerifiedBy, RoundsGrowWithTheLogarithmOfTheRanks) {
  for (const int ranks : {2, 3, 4, 5, 7, 8, 13, 16, 33, 64}) {
    on_verified(ranks, GetParam(), [ranks](Communicator& comm, const VerifyOptions& options) {
      constexpr std::uint64_t calls = 3;
      std::int64_t value = 1, sum = 0;
      for (std::uint64_t i = 0; i < calls; ++i) {
        all_reduce(comm, &value, &sum, 1, Dtype::i64, ReduceOp::sum);
        EXPECT_EQ(sum, ranks);
      }
      const auto log = static_cast<std::uint64_t>(std::bit_width(static_cast<unsigned>(ranks - 1)));
      EXPECT_EQ(options.counters->agreements, calls);
      EXPECT_GE(options.counters->rounds, calls);
      EXPECT_LE(options.counters->rounds, calls * 2 * log) << ranks << " ranks";
    });
  }
}

TEST_P(VerifiedBy, WhatTheGuardSendsIsCountedApart) {
  on_verified(2, GetParam(), [](Communicator& comm, const VerifyOptions& options) {
    std::int64_t value = comm.rank(), other = -1;
    all_gather(comm, &value, std::array<std::int64_t, 2>{}.data(), 1, Dtype::i64);
    const int peer = 1 - comm.rank();
    const auto work =
        comm.start(conformance::message(CallKind::send, reinterpret_cast<std::uint8_t*>(&value),
                                        sizeof value, peer, 4),
                   nullptr);
    recv(comm, &other, sizeof other, Dtype::u8, peer, 4);
    work->wait(default_deadline(comm));
    EXPECT_EQ(other, peer);
    barrier(comm);
    EXPECT_EQ(comm.traffic().calls, 4u);
    EXPECT_EQ(comm.traffic().bytes_sent, 2 * sizeof value);
    EXPECT_EQ(options.counters->envelopes, 2u);
    EXPECT_GT(options.counters->bytes, 0u);
  });
}

TEST_P(VerifiedBy, ARankThatDiesIsNotAMismatch) {
  ThreadWorld world(3, std::chrono::seconds(8));
  conformance::own_on_threads(world, [&](std::unique_ptr<Communicator> backend) {
    StackOptions options;
    options.verify.emplace().way = GetParam();
    const auto comm = wrap(std::move(backend), options);
    if (comm->rank() == 2) return world.kill(2);
    const Said said = said_by([&] { barrier(*comm); });
    EXPECT_EQ(said.kind, ErrorKind::peer_died) << said.detail;
    EXPECT_NE(said.detail.find("world rank 2"), std::string::npos) << said.detail;
  });
}

TEST(VerifiedCommunicator, ARankThatDoesNotComeIsNamed) {
  on_verified(3, AgreementWay::shared_memory, [](Communicator& comm, const auto&) {
    const auto group = comm.split(0, comm.rank(), "late", default_deadline(comm));
    if (comm.rank() == 0) {
      const Said said =
          said_by([&] { group->run(Call{}, Deadline::after(std::chrono::milliseconds(20))); });
      EXPECT_EQ(said.kind, ErrorKind::timeout);
      EXPECT_EQ(said.detail, "group ranks 1,2 did not come");
    }
    barrier(comm);
  });
}

}  // namespace
}  // namespace shardproof

// ctest: comm timeout=120
// Messages that do not fit each other, and buffers that are used again before their operation has
// ended.
#include <gtest/gtest.h>

#include <optional>

#include "comm/conformance_semantics.h"
#include "comm/conformance_threads.h"
#include "comm/stack.h"
#include "comm/verified_communicator.h"

namespace shardproof {
namespace {

std::optional<Error> error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

void expect_mismatch(const std::optional<Error>& error, const std::string& says) {
  ASSERT_TRUE(error.has_value()) << "expected: " << says;
  EXPECT_EQ(error->kind(), ErrorKind::mismatch) << error->what();
  EXPECT_NE(std::string(error->what()).find(says), std::string::npos) << error->what();
}

void on_verified(int ranks, const std::function<void(Communicator&)>& body) {
  ThreadWorld world(ranks, std::chrono::seconds(20));
  conformance::own_on_threads(world, [&](std::unique_ptr<Communicator> backend) {
    StackOptions options;
    options.verify.emplace();
    const auto comm = wrap(std::move(backend), options);
    body(*comm);
  });
}

Call message(CallKind kind, std::vector<double>& data, std::size_t count, Dtype dtype) {
  Call call;
  call.kind = kind;
  call.send = kind == CallKind::send ? data.data() : nullptr;
  call.recv = kind == CallKind::recv ? data.data() : nullptr;
  call.count = count;
  call.dtype = dtype;
  call.peer = kind == CallKind::send ? 1 : 0;
  call.tag = 5;
  return call;
}

struct Difference {
  const char* name;
  std::size_t sent;
  Dtype sent_as;
  const char* says;
};

class Messages : public testing::TestWithParam<std::tuple<Difference, bool>> {};

TEST_P(Messages, AreComparedBeforeTheReceiversBufferIsWritten) {
  const auto& [difference, started] = GetParam();
  on_verified(2, [&, difference = difference, started = started](Communicator& comm) {
    std::vector<double> data(64, comm.rank());
    const Call call = comm.rank() == 0
                          ? message(CallKind::send, data, difference.sent, difference.sent_as)
                          : message(CallKind::recv, data, 8, Dtype::f32);
    const auto error = error_of([&] {
      if (started) {
        comm.start(call, nullptr)->wait(default_deadline(comm));
      } else {
        comm.run(call, default_deadline(comm));
      }
      barrier(comm);
    });
    EXPECT_EQ(data, std::vector<double>(64, comm.rank()));
    EXPECT_TRUE(comm.poisoned());
    // What a started receive took is compared when it is waited for: the sender may be through with
    // the message, and hear of it at its next call, or hear from the backend that lengths differ.
    const bool in_full = comm.rank() == 1 || !started;
    expect_mismatch(error, in_full ? difference.says : "");
  });
}

INSTANTIATE_TEST_SUITE_P(
    Calls, Messages,
    testing::Combine(
        testing::Values(Difference{"count", 9, Dtype::f32, "count: 9 on rank 0; 8 on rank 1"},
                        Difference{"dtype", 8, Dtype::i32, "dtype: I32 on rank 0; F32 on rank 1"},
                        Difference{"bytes_alike", 4, Dtype::f64,
                                   "count: 4 on rank 0; 8 on rank 1"}),
        testing::Bool()),
    [](const auto& info) {
      return std::string(std::get<0>(info.param).name) +
             (std::get<1>(info.param) ? "_started" : "");
    });

TEST(VerifiedMessages, TheOrderOfOneTagIsCompared) {
  on_verified(2, [](Communicator& comm) {
    std::vector<double> data(16, 1);
    const auto error = error_of([&] {
      std::size_t counts[] = {2, 3};
      if (comm.rank() == 1) std::swap(counts[0], counts[1]);
      for (const std::size_t count : counts) {
        comm.run(
            message(comm.rank() == 0 ? CallKind::send : CallKind::recv, data, count, Dtype::f32),
            default_deadline(comm));
      }
    });
    expect_mismatch(error, "count: 2 on rank 0; 3 on rank 1");
  });
}

Call sum_of(std::vector<double>& send, std::vector<double>& recv) {
  Call call;
  call.kind = CallKind::all_reduce;
  call.dtype = Dtype::f64;
  call.send = send.data();
  call.recv = recv.data();
  call.count = send.size();
  return call;
}

// Rank 1 joins the first sum only when it is told to, so that it is under way on rank 0 for sure.
class InFlight : public testing::Test {
 protected:
  void with_a_sum_under_way(const std::function<void(Communicator&)>& use_again,
                            const std::string& says) {
    on_verified(2, [&](Communicator& comm) {
      const auto group = comm.split(0, comm.rank(), "sum", default_deadline(comm));
      std::uint8_t go = 1;
      if (comm.rank() == 1) {
        recv(comm, &go, 1, Dtype::u8, 0, 0);
        std::vector<double> mine(8), all(8);
        expect_mismatch(error_of([&] { group->run(sum_of(mine, all), default_deadline(*group)); }),
                        "rank 0");
        return;
      }
      const auto work = group->start(sum_of(send_, recv_), nullptr);
      expect_mismatch(error_of([&] { use_again(*group); }), says);
      send(comm, &go, 1, Dtype::u8, 1, 0);
    });
  }

  std::vector<double> send_ = std::vector<double>(8, 1);
  std::vector<double> recv_ = std::vector<double>(8, -1);
};

TEST_F(InFlight, ReceivingIntoWhatIsBeingSentIsTold) {
  std::vector<double> other(8);
  with_a_sum_under_way([&](Communicator& group) { group.start(sum_of(other, send_), nullptr); },
                       "receive buffer overlaps the send buffer of world/sum.0 all_reduce #0");
}

TEST_F(InFlight, ReceivingTwiceIntoOneBufferIsTold) {
  std::vector<double> other(8);
  with_a_sum_under_way([&](Communicator& group) { group.start(sum_of(other, recv_), nullptr); },
                       "receive buffer overlaps the receive buffer of world/sum.0 all_reduce #0");
}

TEST_F(InFlight, SendingWhatIsBeingReceivedIsTold) {
  std::vector<double> other(8);
  with_a_sum_under_way([&](Communicator& group) { group.start(sum_of(recv_, other), nullptr); },
                       "send buffer overlaps the receive buffer of world/sum.0 all_reduce #0");
}

TEST(VerifiedMessages, SendingOneBufferTwiceIsAllowed) {
  on_verified(2, [](Communicator& comm) {
    std::vector<double> send(8, 1), one(8), two(8);
    const auto first = comm.start(sum_of(send, one), nullptr);
    const auto second = comm.start(sum_of(send, two), nullptr);
    second->wait(default_deadline(comm));
    first->wait(default_deadline(comm));
    EXPECT_EQ(one, two);
    comm.run(sum_of(send, one), default_deadline(comm));
  });
}

TEST(VerifiedMessages, WritingWhatIsBeingSentIsTold) {
  on_verified(2, [](Communicator& comm) {
    std::vector<double> send(1000, 1), recv(1000);
    const bool writes = comm.rank() == 0;
    std::unique_ptr<Work> work;
    if (writes) {
      work = comm.start(sum_of(send, recv), nullptr);
      std::fill(send.begin(), send.end(), 2);  // rank 1 has not come
    }
    std::uint8_t go = 1;
    if (writes) shardproof::send(comm, &go, 1, Dtype::u8, 1, 0);
    if (!writes) shardproof::recv(comm, &go, 1, Dtype::u8, 0, 0);
    if (!writes) work = comm.start(sum_of(send, recv), nullptr);
    const auto error = error_of([&] { work->wait(default_deadline(comm)); });
    if (writes) expect_mismatch(error, "its send buffer was written while");
  });
}

}  // namespace
}  // namespace shardproof

// ctest: comm
// A bit that flips below the checksums is found by its receiver, whatever the call; clean calls
// give what they gave without, and count the same traffic.
#include "comm/checked_communicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <numeric>

#include "comm/conformance_threads.h"
#include "comm/stack.h"

namespace shardproof {
namespace {

using conformance::on_threads;
using conformance::own_on_threads;

// Flips a bit of what arrives on `rank` in groups that carry no checksums.
class FlippingCommunicator : public ForwardingCommunicator {
 public:
  FlippingCommunicator(std::unique_ptr<Communicator> inner, int rank)
      : ForwardingCommunicator(std::move(inner)), flips_on_(rank) {}
  void run(const Call& call, Deadline deadline) override {
    inner().run(call, deadline);
    flip(call);
  }
  std::unique_ptr<Work> start(const Call& call, Keep) override {
    run(call, default_deadline(*this));  // enough here: what is tested is above
    return std::make_unique<Done>();
  }

 protected:
  std::unique_ptr<Communicator> rewrap(std::unique_ptr<Communicator> child) override {
    const bool sums = child->group().name.find("checksums") != std::string::npos;
    return std::make_unique<FlippingCommunicator>(std::move(child), sums ? -1 : flips_on_);
  }

 private:
  struct Done : Work {
    void wait(Deadline) override {}
    bool done() const override { return true; }
  };
  void flip(const Call& call) {
    const std::size_t bytes = call.recv_elements(rank()) * size_of(call.dtype);
    if (rank() != flips_on_ || bytes == 0) return;
    static_cast<unsigned char*>(call.recv)[bytes / 2] ^= 4U;
  }
  const int flips_on_;
};

constexpr int ranks = 3;
constexpr std::size_t count = 5;

struct Buffers {
  std::vector<std::int64_t> from = std::vector<std::int64_t>(count * ranks),
                            to = std::vector<std::int64_t>(count * ranks);
  explicit Buffers(int rank) { std::iota(from.begin(), from.end(), 100 * rank); }
};

using Body = std::function<void(Communicator&, Buffers&)>;
struct Named {
  std::string name;
  Body body;
};

std::vector<Named> calls() {
  const auto reduction = [](CallKind kind, ReduceOp op) {
    return [kind, op](Communicator& comm, Buffers& b) {
      if (kind == CallKind::reduce) {
        return reduce(comm, b.from.data(), b.to.data(), count, Dtype::i64, op, 1);
      }
      if (kind == CallKind::all_reduce) {
        return all_reduce(comm, b.from.data(), b.to.data(), count, Dtype::i64, op);
      }
      reduce_scatter(comm, b.from.data(), b.to.data(), count, Dtype::i64, op);
    };
  };
  return {
      {"broadcast",
       [](Communicator& comm, Buffers& b) {
         broadcast(comm, comm.rank() == 0 ? b.from.data() : b.to.data(), count, Dtype::i64, 0);
       }},
      {"all_gather",
       [](Communicator& comm, Buffers& b) {
         all_gather(comm, b.from.data(), b.to.data(), count, Dtype::i64);
       }},
      {"all_to_all",
       [](Communicator& comm, Buffers& b) {
         all_to_all(comm, b.from.data(), b.to.data(), count, Dtype::i64);
       }},
      {"recv",
       [](Communicator& comm, Buffers& b) {
         if (comm.rank() == 0) send(comm, b.from.data(), count, Dtype::i64, 1, 7);
         if (comm.rank() == 1) recv(comm, b.to.data(), count, Dtype::i64, 0, 7);
       }},
      {"all_reduce sum", reduction(CallKind::all_reduce, ReduceOp::sum)},
      {"all_reduce max", reduction(CallKind::all_reduce, ReduceOp::max)},
      {"all_reduce bit_or", reduction(CallKind::all_reduce, ReduceOp::bit_or)},
      {"reduce sum", reduction(CallKind::reduce, ReduceOp::sum)},
      {"reduce min", reduction(CallKind::reduce, ReduceOp::min)},
      {"reduce_scatter sum", reduction(CallKind::reduce_scatter, ReduceOp::sum)},
  };
}

// Calls `body` on a stack that flips on rank 1; what the ranks threw.
std::vector<std::string> errors(const Body& body, bool checked) {
  ThreadWorld world(ranks, std::chrono::seconds(20));
  std::vector<std::string> said(ranks);
  own_on_threads(world, [&](std::unique_ptr<Communicator> comm) {
    const int rank = comm->rank();
    comm = std::make_unique<FlippingCommunicator>(std::move(comm), 1);
    if (checked) comm = make_checked(std::move(comm));
    Buffers buffers(rank);
    try {
      body(*comm, buffers);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      said[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return said;
}

TEST(Checked, AFlippedBitIsFoundByItsReceiverWhateverTheCall) {
  for (const Named& call : calls()) {
    const auto plain = errors(call.body, false), said = errors(call.body, true);
    EXPECT_EQ(plain[1], "") << call.name;
    const std::string kind = call.name.substr(0, call.name.find(' '));
    EXPECT_NE(said[1].find(kind + " 0 of group world"), std::string::npos) << call.name << said[1];
    EXPECT_NE(said[1].find("rank 1"), std::string::npos) << said[1];
    EXPECT_EQ(said[0] + said[2], "") << call.name;
  }
}

TEST(Checked, SenderReceiverGroupAndNumberAreNamed) {
  const auto said = errors(
      [](Communicator& comm, Buffers& b) {
        const auto pair = comm.split(comm.rank() == 0 ? 1 : 0, -comm.rank(), "pair",
                                     default_deadline(comm));  // ranks 2 and 1, in this order
        if (comm.rank() != 0) barrier(*pair);
        if (comm.rank() == 2) send(*pair, b.from.data(), count, Dtype::i64, 1, 7);
        if (comm.rank() == 1) recv(*pair, b.to.data(), count, Dtype::i64, 0, 7);
      },
      true);
  EXPECT_NE(said[1].find("recv 0 of group world/pair.0 with tag 7"), std::string::npos) << said[1];
  EXPECT_NE(said[1].find("what rank 2 sent to rank 1"), std::string::npos) << said[1];
}

TEST(Checked, AStartedCallIsComparedWhenItIsWaitedForAndEveryTime) {
  const auto said = errors(
      [](Communicator& comm, Buffers& b) {
        Call call;
        call.kind = CallKind::all_gather;
        call.dtype = Dtype::i64;
        call.send = b.from.data();
        call.recv = b.to.data();
        call.recv_counts.assign(ranks, count);
        const auto work = comm.start(call, nullptr);
        if (comm.rank() == 1) {
          EXPECT_THROW(work->wait(default_deadline(comm)), Error);
        }
        work->wait(default_deadline(comm));
      },
      true);
  EXPECT_NE(said[1].find("all_gather 0 of group world"), std::string::npos) << said[1];
}

// Everything, started and run, with the guard and without: the same buffers and traffic.
std::vector<std::int64_t> everything(bool checked) {
  std::vector<std::int64_t> out;
  std::mutex mutex;
  ThreadWorld world(ranks, std::chrono::seconds(20));
  own_on_threads(world, [&](std::unique_ptr<Communicator> comm) {
    StackOptions options;
    options.checked = checked;
    comm = wrap(std::move(comm), options);
    Buffers buffers(comm->rank());
    std::int64_t sum = 0;
    for (const Named& call : calls()) {
      call.body(*comm, buffers);
      for (const std::int64_t value : buffers.to) sum = 31 * sum + value;
    }
    std::vector<std::int64_t> got(count);
    Call message;
    message.dtype = Dtype::i64;
    message.count = count;
    message.tag = 3;
    message.peer = (comm->rank() + 1) % ranks;
    message.kind = CallKind::send;
    message.send = buffers.from.data();
    const auto sent = comm->start(message, nullptr);
    recv(*comm, got.data(), count, Dtype::i64, (comm->rank() + ranks - 1) % ranks, 3);
    sent->wait(default_deadline(*comm));
    for (const std::int64_t value : got) sum = 31 * sum + value;
    barrier(*comm);
    const std::lock_guard lock(mutex);
    out.resize(2 * ranks);
    out[static_cast<std::size_t>(2 * comm->rank())] = sum;
    out[static_cast<std::size_t>(2 * comm->rank() + 1)] =
        static_cast<std::int64_t>(comm->traffic().bytes_sent);
  });
  return out;
}

TEST(Checked, CleanCallsGiveTheSameAndCountTheSame) {
  const auto plain = everything(false);
  EXPECT_EQ(plain, everything(true));
  EXPECT_NE(plain[0], plain[2]);
}

// Where the own part of an exchange is left where it is, and buffers are shared.
TEST(Checked, InPlaceAndLeftOutPartsAreNoDifference) {
  on_threads(2, [](Communicator& plain) {
    std::vector<std::int64_t> data{1 + plain.rank(), 10 + plain.rank()};
    const auto comm = make_checked(plain.split(0, plain.rank(), "own", default_deadline(plain)));
    all_gather(*comm, &data[static_cast<std::size_t>(comm->rank())], data.data(), 1, Dtype::i64);
    EXPECT_EQ(data, (std::vector<std::int64_t>{1, 11}));
    all_reduce(*comm, data.data(), data.data(), 2, Dtype::i64, ReduceOp::sum);
    EXPECT_EQ(data, (std::vector<std::int64_t>{2, 22}));
    std::vector<std::size_t> sends{1, 1}, receives{1, 1};
    receives[static_cast<std::size_t>(comm->rank())] = 0;
    std::int64_t arrived = 0;
    all_to_all_v(*comm, data.data(), &arrived, sends, receives, Dtype::i64);
    EXPECT_EQ(arrived, comm->rank() == 0 ? 2 : 22);
  });
}

}  // namespace
}  // namespace shardproof

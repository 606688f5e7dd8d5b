// ctest: comm
// Plans are carried out here by a simulated network, so any group size and chunk can be tried fast.
#include "comm/mpi_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <span>

#include "comm/local_reduce.h"

namespace shardproof {
namespace {

using Bytes = std::vector<std::byte>;

// All ranks of one call, each stepping through its plan; a message is delivered when both ends have
// posted it, in order for each pair.
class Network {
 public:
  explicit Network(std::vector<Call> calls, std::size_t chunk) : calls_(std::move(calls)) {
    const int size = static_cast<int>(calls_.size());
    for (int r = 0; r < size; ++r) {
      validate(calls_[static_cast<std::size_t>(r)], r, size);
      ranks_.push_back({make_plan(calls_[static_cast<std::size_t>(r)], r, size, chunk)});
    }
  }

  // False when no rank can go on before all have ended.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) moved = advance(r) || moved;
    }
    for (const Rank& rank : ranks_) {
      if (rank.step < rank.plan.steps.size() || !all_done(rank, rank.done.size())) return false;
    }
    return true;
  }
  std::uint64_t sent(int rank) const { return ranks_[static_cast<std::size_t>(rank)].sent; }
  std::size_t largest_message() const { return largest_; }

 private:
  struct Rank {
    CallPlan plan;
    std::size_t step = 0;
    std::vector<bool> done{};
    std::uint64_t sent = 0;
  };
  struct Receive {
    std::byte* to;
    std::size_t size;
    int rank;
    std::size_t message;
  };
  using Pair = std::pair<int, int>;

  static bool all_done(const Rank& rank, std::size_t messages) {
    return std::all_of(rank.done.begin(), rank.done.begin() + static_cast<std::ptrdiff_t>(messages),
                       [](bool d) { return d; });
  }

  bool advance(int r) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    if (rank.step == rank.plan.steps.size()) return false;
    const PlanStep& step = rank.plan.steps[rank.step];
    const Call& call = calls_[static_cast<std::size_t>(r)];
    largest_ = std::max(largest_, step.peer >= 0 ? step.size : 0);
    switch (step.kind) {
      case PlanStep::Kind::send:
        flying_[{r, step.peer}].emplace_back(step.from, step.from + step.size);
        rank.done.push_back(true);
        rank.sent += step.size;
        deliver({r, step.peer});
        break;
      case PlanStep::Kind::recv:
        waiting_[{step.peer, r}].push_back({step.to, step.size, r, rank.done.size()});
        rank.done.push_back(false);
        deliver({step.peer, r});
        break;
      case PlanStep::Kind::wait:
        if (!all_done(rank, step.size)) return false;
        break;
      case PlanStep::Kind::copy:
        std::memmove(step.to, step.from, step.size);
        break;
      case PlanStep::Kind::reduce:
        local_reduce(std::span(rank.plan.inputs).subspan(step.first_input, step.inputs), step.to,
                     step.size, call.dtype, call.op);
        break;
    }
    ++rank.step;
    return true;
  }

  void deliver(Pair pair) {
    auto& messages = flying_[pair];
    auto& receives = waiting_[pair];
    while (!messages.empty() && !receives.empty()) {
      const Receive receive = receives.front();
      ASSERT_EQ(messages.front().size(), receive.size);
      std::copy(messages.front().begin(), messages.front().end(), receive.to);
      ranks_[static_cast<std::size_t>(receive.rank)].done[receive.message] = true;
      messages.pop_front();
      receives.pop_front();
    }
  }

  std::vector<Call> calls_;
  std::vector<Rank> ranks_;
  std::map<Pair, std::deque<Bytes>> flying_;
  std::map<Pair, std::deque<Receive>> waiting_;
  std::size_t largest_ = 0;
};

// Element i of rank r: an integer whose sums are exact in fp32.
float value(int rank, std::size_t i) {
  return static_cast<float>(rank + 1) + static_cast<float>(i % 97) * 8;
}
std::vector<float> values(int rank, std::size_t count) {
  std::vector<float> v(count);
  for (std::size_t i = 0; i < count; ++i) v[i] = value(rank, i);
  return v;
}
float sum_over(int ranks, std::size_t i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += value(r, i);
  return sum;
}

Call call_of(CallKind kind, const void* send, void* recv, std::size_t count, int peer = -1) {
  Call call;
  call.kind = kind;
  call.send = send;
  call.recv = recv;
  call.count = count;
  call.peer = peer;
  return call;
}

struct Shape {
  int ranks;
  std::size_t chunk;
};
Shape any_shape() {
  return {*rc::gen::inRange(1, 8), *rc::gen::element<std::size_t>(8, 16, 64, 4096)};
}
std::vector<std::size_t> any_counts(int ranks) {
  return *rc::gen::container<std::vector<std::size_t>>(static_cast<std::size_t>(ranks),
                                                       rc::gen::inRange<std::size_t>(0, 60));
}
std::size_t sum(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

RC_GTEST_PROP(MpiPlan, AllReduceSumsOnEveryRank, ()) {
  const Shape shape = any_shape();
  const auto count = *rc::gen::inRange<std::size_t>(0, 300);
  const bool in_place = *rc::gen::arbitrary<bool>();
  std::vector<std::vector<float>> send;
  std::vector<std::vector<float>> recv(static_cast<std::size_t>(shape.ranks));
  std::vector<Call> calls;
  for (int r = 0; r < shape.ranks; ++r) {
    send.push_back(values(r, count));
    recv[static_cast<std::size_t>(r)].resize(count);
  }
  for (std::size_t r = 0; r < send.size(); ++r) {
    if (in_place) recv[r] = send[r];
    calls.push_back(call_of(CallKind::all_reduce, in_place ? recv[r].data() : send[r].data(),
                            recv[r].data(), count));
  }
  Network network(std::move(calls), shape.chunk);
  RC_ASSERT(network.run());
  std::uint64_t sent = 0;
  for (int r = 0; r < shape.ranks; ++r) {
    for (std::size_t i = 0; i < count; ++i) {
      RC_ASSERT(recv[static_cast<std::size_t>(r)][i] == sum_over(shape.ranks, i));
    }
    sent += network.sent(r);
  }
  RC_ASSERT(sent == 2 * static_cast<std::uint64_t>(shape.ranks - 1) * count * sizeof(float));
  RC_ASSERT(network.largest_message() <= shape.chunk);
}

RC_GTEST_PROP(MpiPlan, ReduceScatterThenAllGatherIsAllReduce, ()) {
  const Shape shape = any_shape();
  const std::vector<std::size_t> counts = any_counts(shape.ranks);
  const std::size_t count = sum(counts);
  std::vector<std::vector<float>> data;
  for (int r = 0; r < shape.ranks; ++r) data.push_back(values(r, count));
  std::vector<Call> scatter;
  std::vector<Call> gather;
  std::size_t begin = 0;
  for (std::size_t r = 0; r < data.size(); ++r) {
    float* own = data[r].data() + begin;  // in place, both ways
    scatter.push_back(call_of(CallKind::reduce_scatter, data[r].data(), own, 0));
    gather.push_back(call_of(CallKind::all_gather, own, data[r].data(), 0));
    scatter.back().recv_counts = gather.back().recv_counts = counts;
    begin += counts[r];
  }
  Network scattered(std::move(scatter), shape.chunk);
  RC_ASSERT(scattered.run());
  Network gathered(std::move(gather), shape.chunk);
  RC_ASSERT(gathered.run());
  for (std::size_t r = 0; r < data.size(); ++r) {
    for (std::size_t i = 0; i < count; ++i) RC_ASSERT(data[r][i] == sum_over(shape.ranks, i));
    const int rank = static_cast<int>(r);
    RC_ASSERT(scattered.sent(rank) == (count - counts[r]) * sizeof(float));
    RC_ASSERT(gathered.sent(rank) ==
              counts[r] * sizeof(float) * static_cast<std::size_t>(shape.ranks - 1));
  }
}

RC_GTEST_PROP(MpiPlan, AllToAllTransposes, ()) {
  const Shape shape = any_shape();
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  std::vector<std::vector<std::size_t>> counts;  // [from][to]
  for (std::size_t r = 0; r < ranks; ++r) counts.push_back(any_counts(shape.ranks));
  std::vector<std::vector<float>> send(ranks);
  std::vector<std::vector<float>> recv(ranks);
  std::vector<std::vector<float>> expected(ranks);
  for (std::size_t from = 0; from < ranks; ++from) {
    for (std::size_t to = 0; to < ranks; ++to) {
      for (std::size_t i = 0; i < counts[from][to]; ++i) {
        send[from].push_back(static_cast<float>((from * 8 + to) * 64 + i));
        expected[to].push_back(send[from].back());
      }
    }
  }
  std::vector<Call> calls;
  for (std::size_t r = 0; r < ranks; ++r) {
    recv[r].resize(expected[r].size());
    calls.push_back(call_of(CallKind::all_to_all, send[r].data(), recv[r].data(), 0));
    calls.back().send_counts = counts[r];
    for (std::size_t from = 0; from < ranks; ++from) {
      calls.back().recv_counts.push_back(counts[from][r]);
    }
  }
  Network network(std::move(calls), shape.chunk);
  RC_ASSERT(network.run());
  RC_ASSERT(recv == expected);
  for (std::size_t r = 0; r < ranks; ++r) {
    RC_ASSERT(network.sent(static_cast<int>(r)) == (sum(counts[r]) - counts[r][r]) * sizeof(float));
  }
}

RC_GTEST_PROP(MpiPlan, BroadcastAndReduceFollowATree, ()) {
  const Shape shape = any_shape();
  const auto count = *rc::gen::inRange<std::size_t>(0, 200);
  const int root = *rc::gen::inRange(0, shape.ranks);
  std::vector<std::vector<float>> data;
  std::vector<float> total(count);
  std::vector<Call> down;
  std::vector<Call> up;
  for (int r = 0; r < shape.ranks; ++r) data.push_back(values(r, count));
  for (int r = 0; r < shape.ranks; ++r) {
    float* mine = data[static_cast<std::size_t>(r)].data();
    up.push_back(call_of(CallKind::reduce, mine, r == root ? total.data() : nullptr, count, root));
    down.push_back(call_of(CallKind::broadcast, nullptr, mine, count, root));
  }
  Network reduced(std::move(up), shape.chunk);
  RC_ASSERT(reduced.run());
  for (std::size_t i = 0; i < count; ++i) RC_ASSERT(total[i] == sum_over(shape.ranks, i));
  Network broadcast(std::move(down), shape.chunk);
  RC_ASSERT(broadcast.run());
  std::uint64_t sent = 0;
  for (int r = 0; r < shape.ranks; ++r) {
    RC_ASSERT(data[static_cast<std::size_t>(r)] == values(root, count));
    RC_ASSERT(reduced.sent(r) == (r == root ? 0 : count * sizeof(float)));
    sent += broadcast.sent(r);
  }
  RC_ASSERT(sent == static_cast<std::uint64_t>(shape.ranks - 1) * count * sizeof(float));
}

TEST(MpiPlan, BarrierNeedsEveryRankAndNoBytes) {
  for (const int ranks : {1, 2, 3, 4, 6, 7}) {
    Network network(std::vector<Call>(static_cast<std::size_t>(ranks)), 64);
    EXPECT_TRUE(network.run());
    for (int r = 0; r < ranks; ++r) EXPECT_EQ(network.sent(r), 0u);
  }
}

TEST(MpiPlan, MessagesGoInChunksAndEmptyOnesStillGo) {
  for (const std::size_t count : {0, 1, 2, 3, 50}) {
    const std::vector<float> sent = values(3, count);
    std::vector<float> received(count);
    Network network({call_of(CallKind::send, sent.data(), nullptr, count, 1),
                     call_of(CallKind::recv, nullptr, received.data(), count, 0)},
                    8);
    EXPECT_TRUE(network.run());
    EXPECT_EQ(received, sent);
    EXPECT_EQ(network.sent(0), count * sizeof(float));
  }
}

// MPI counts in int: no message may be longer than a chunk, and every byte goes once. (Only
// planned: the buffer is never touched.)
TEST(MpiPlan, MoreThanAnIntOfBytesGoesInChunks) {
  constexpr std::size_t count = (std::size_t{3} << 30) + 5;
  std::byte nothing{};
  Call call = call_of(CallKind::send, &nothing, nullptr, count, 1);
  call.dtype = Dtype::u8;
  std::size_t sent = 0;
  for (const PlanStep& step : make_plan(call, 0, 2).steps) {
    if (step.kind != PlanStep::Kind::send) continue;
    EXPECT_EQ(step.from, &nothing + sent);
    EXPECT_LE(step.size, plan_chunk_bytes);
    sent += step.size;
  }
  EXPECT_EQ(sent, count);
}

// 1 + 2^-8 + 2^-8 in bfloat16: 1 when rounded after each addition, 1 + 2^-7 when rounded once.
TEST(MpiPlan, SixteenBitFloatsAreRoundedOnce) {
  const std::uint16_t one = float_to_bf16(1.0f);
  const std::uint16_t small = float_to_bf16(0.00390625f);
  for (const CallKind kind : {CallKind::reduce, CallKind::all_reduce}) {
    std::vector<std::vector<std::uint16_t>> data{{one}, {small}, {small}};
    std::vector<Call> calls;
    for (auto& mine : data) {
      calls.push_back(call_of(kind, mine.data(), mine.data(), 1, 0));
      calls.back().dtype = Dtype::bf16;
    }
    Network network(std::move(calls), 64);
    ASSERT_TRUE(network.run());
    EXPECT_EQ(data[0][0], float_to_bf16(1.0078125f));
  }
}

TEST(MpiPlanDeathTest, ChunksHoldWholeElements) {
  EXPECT_DEATH(make_plan(Call{}, 0, 1, 12), "whole elements");
  EXPECT_DEATH(make_plan(Call{}, 0, 1, 0), "whole elements");
}

}  // namespace
}  // namespace shardproof

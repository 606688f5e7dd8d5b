// ctest: comm
// What threads add to the conformance bodies: simulated deaths, revoking everything, ranks that
// disagree on the call, barriers seen through shared memory, aborts that race with data.
#include "comm/thread_communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "comm/conformance_semantics.h"
#include "comm/conformance_threads.h"

namespace shardproof {
namespace {

using conformance::expect_working;
using conformance::kind_of_error;
using conformance::on_threads;
using conformance::patience;
using conformance::sum_call;

// The rank that an Error names, with its kind.
template <typename Action>
std::pair<ErrorKind, int> named_by(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.kind(), error.world_rank()};
  }
  ADD_FAILURE() << "no Error was thrown";
  return {ErrorKind::numeric, -1};
}

TEST(ThreadWorld, HoldsWorldRanks) {
  ThreadWorld world(3, std::chrono::seconds(7));
  EXPECT_EQ(world.size(), 3);
  const auto comm = world.communicator(2);
  EXPECT_EQ(comm->rank(), 2);
  EXPECT_EQ(comm->group().name, "world");
  EXPECT_EQ(comm->group().world_ranks, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(comm->timeout(), std::chrono::seconds(7));
  EXPECT_EQ(comm->traffic().calls, 0u);
}

TEST(ThreadWorldDeathTest, RefusesRanksThatAreNotThere) {
  EXPECT_DEATH(ThreadWorld(0), "0 vs 0");
  ThreadWorld world(2);
  EXPECT_DEATH(world.communicator(2), "2 vs 2");
  EXPECT_DEATH(world.kill(-1), "0 vs -1");
}

TEST(ThreadCommunicator, BarrierHoldsBackUntilTheLastOneCame) {
  constexpr int rounds = 300, ranks = 4;
  std::atomic<int> entered{0};
  on_threads(ranks, [&](Communicator& comm) {
    for (int round = 1; round <= rounds; ++round) {
      ++entered;
      barrier(comm);
      ASSERT_GE(entered.load(), round * ranks);
    }
  });
}

TEST(ThreadCommunicator, CountsTimeInCalls) {
  on_threads(2, [](Communicator& comm) {
    expect_working(comm, 1);
    EXPECT_EQ(comm.traffic().calls, 1u);
    EXPECT_GT(comm.traffic().time_in_calls.count(), 0);
  });
}

// ---- deaths ----
TEST(Kill, ReleasesEveryWaitAndNamesTheDeadRank) {
  ThreadWorld world(4, std::chrono::seconds(20));
  on_threads(world, [&](Communicator& comm) {
    auto half = comm.split(comm.rank() / 2, 0, "half", patience());
    if (comm.rank() == 3) {
      world.kill(3);
      const auto own = named_by([&] { barrier(comm); });
      EXPECT_EQ(own, (std::pair{ErrorKind::peer_died, 3}));
      EXPECT_EQ(kind_of_error([&] { comm.agree(0, patience()); }, "agree"), ErrorKind::peer_died);
      return;
    }
    // Rank 2 waits in the half that has the dead rank, the others in the world.
    Communicator& used = comm.rank() == 2 ? *half : comm;
    EXPECT_EQ(named_by([&] { barrier(used); }), (std::pair{ErrorKind::peer_died, 3}));
    EXPECT_EQ(comm.failed_ranks(), std::vector<int>{3});
    EXPECT_EQ(half->failed_ranks(), comm.rank() == 2 ? std::vector<int>{1} : std::vector<int>{});
    EXPECT_TRUE(comm.poisoned());
    if (comm.rank() < 2) expect_working(*half, 3);  // nobody in it died

    EXPECT_EQ(comm.agree(std::uint64_t{1} << comm.rank(), patience()), 0b111u);
    auto survivors = comm.shrink("survivors", patience());
    EXPECT_EQ(survivors->group().world_ranks, (std::vector<int>{0, 1, 2}));
    expect_working(*survivors, 4);
  });
}

TEST(Kill, ReleasesAWaitUnderWayOfTheDeadRankItself) {
  ThreadWorld world(3, std::chrono::seconds(20));
  std::atomic<bool> inside{false};
  on_threads(world, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      auto work = comm.start(Call{}, nullptr);
      inside = true;
      EXPECT_EQ(named_by([&] { work->wait(patience()); }), (std::pair{ErrorKind::peer_died, 0}));
    } else if (comm.rank() == 1) {
      while (!inside) std::this_thread::yield();
      world.kill(0);
    }
  });
}

TEST(Kill, DuringAgreementCountsTheLivingOnly) {
  ThreadWorld world(3, std::chrono::seconds(20));
  on_threads(world, [&](Communicator& comm) {
    if (comm.rank() == 1) return world.kill(1);
    EXPECT_EQ(comm.agree(1u << comm.rank(), patience()), 0b101u);
    EXPECT_EQ(comm.failed_ranks(), std::vector<int>{1});
  });
}

TEST(Kill, MessagesToTheDeadEnd) {
  ThreadWorld world(2, std::chrono::seconds(20));
  on_threads(world, [&](Communicator& comm) {
    std::uint8_t byte = 0;
    if (comm.rank() == 1) return world.kill(1);
    EXPECT_EQ(named_by([&] { send(comm, &byte, 1, Dtype::u8, 1, 0); }),
              (std::pair{ErrorKind::peer_died, 1}));
  });
}

TEST(Kill, AGroupMadeAfterwardsKnowsTheDead) {
  ThreadWorld world(3, std::chrono::seconds(20));
  on_threads(world, [&](Communicator& comm) {
    auto group = comm.split(0, 0, "early", patience());
    if (comm.rank() == 2) return world.kill(2);
    auto first = comm.shrink("first", patience());
    EXPECT_TRUE(first->failed_ranks().empty());
    EXPECT_EQ(kind_of_error([&] { group->split(0, 0, "late", patience()); }, "split"),
              ErrorKind::peer_died);
  });
}

// ---- revocation ----
TEST(RevokeAll, ReleasesWorldAndDescendantsButNotLaterShrunkenGroups) {
  ThreadWorld world(3, std::chrono::seconds(20));
  on_threads(world, [&](Communicator& comm) {
    auto child = comm.split(0, 0, "child", patience());
    auto grandchild = child->split(0, 0, "grandchild", patience());
    if (comm.rank() == 0) {
      world.revoke_all();
    } else {
      Communicator& used = comm.rank() == 1 ? *grandchild : comm;
      EXPECT_EQ(kind_of_error([&] { barrier(used); }, "barrier"), ErrorKind::revoked);
    }
    EXPECT_TRUE(grandchild->poisoned());
    EXPECT_EQ(kind_of_error([&] { comm.split(0, 0, "no", patience()); }, "split"),
              ErrorKind::revoked);
    auto again = comm.shrink("again", patience());
    expect_working(*again, 2);
  });
}

TEST(Revoke, OfAChildLeavesTheParentAlone) {
  on_threads(2, [](Communicator& comm) {
    auto child = comm.split(0, 0, "child", patience());
    auto sibling = comm.split(0, 0, "sibling", patience());
    child->revoke();
    EXPECT_TRUE(child->poisoned());
    expect_working(*sibling, 2);
    expect_working(comm, 2);
  });
}

// ---- disagreement ----
TEST(Mismatch, OfKindCountDtypeOpOrRootIsAnErrorOnSomeRankAndNeverAHang) {
  const std::vector<std::function<void(Call&)>> changes = {
      [](Call& call) { call.kind = CallKind::barrier; },
      [](Call& call) { call.count = 3; },
      [](Call& call) { call.dtype = Dtype::f64; },
      [](Call& call) { call.op = ReduceOp::max; },
  };
  for (const auto& change : changes) {
    std::atomic<int> mismatches{0}, other{0};
    on_threads(3, [&](Communicator& comm) {
      std::int64_t data[4] = {};
      Call call = sum_call(data, data, 4);
      if (comm.rank() == 1) change(call);
      try {
        comm.run(call, patience());
        comm.run(Call{}, patience());  // who was let through meets the poison here
        ++other;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::mismatch) {
          ++mismatches;
        } else {
          EXPECT_EQ(error.kind(), ErrorKind::revoked);
        }
      }
    });
    EXPECT_GE(mismatches.load(), 1);
    EXPECT_EQ(other.load(), 0);
  }
}

TEST(Mismatch, OfPairwiseCountsAndMessageLengths) {
  on_threads(2, [](Communicator& comm) {
    std::int64_t out[8] = {}, in[8] = {};
    const std::size_t wrong = comm.rank() == 0 ? 3 : 2;  // rank 1 expects 2
    const auto kind = kind_of_error(
        [&] {
          all_to_all_v(comm, out, in, {1, wrong}, {comm.rank() == 0 ? 1u : 2u, 2}, Dtype::i64);
          barrier(comm);
        },
        "all_to_all");
    EXPECT_TRUE(kind == ErrorKind::mismatch || kind == ErrorKind::revoked);
  });
  on_threads(2, [](Communicator& comm) {
    std::uint8_t data[4] = {9, 9, 9, 9};
    const auto kind = kind_of_error(
        [&] {
          if (comm.rank() == 0) return send(comm, data, 4, Dtype::u8, 1, 0);
          recv(comm, data, 2, Dtype::u8, 0, 0);
        },
        "message");
    EXPECT_TRUE(kind == ErrorKind::mismatch || kind == ErrorKind::revoked);
  });
}

// ---- buffers after a failure ----
// A rank whose call failed may reuse its buffer at once: nobody reads or writes it any more. Run
// under a sanitizer this also fails on the access itself.
TEST(Abort, NoPeerTouchesTheBuffersAfterAFailedCall) {
  constexpr std::size_t count = std::size_t{1} << 20;
  for (int round = 0; round < 20; ++round) {
    ThreadWorld world(3, std::chrono::seconds(20));
    std::atomic<int> ready{0};
    on_threads(world, [&](Communicator& comm) {
      auto data = std::make_unique<std::vector<std::int64_t>>(count, 1);
      ++ready;
      while (ready < 3) std::this_thread::yield();
      try {
        if (comm.rank() == 2) {
          auto work = comm.start(Call{}, nullptr);  // not its peers' call: a mismatch, or the abort
          comm.abort();
        } else {
          comm.run(sum_call(data->data(), data->data(), count), patience());
        }
      } catch (const Error&) {
      }
      std::memset(data->data(), 0xff, count * sizeof(std::int64_t));
      data.reset();
    });
  }
}

TEST(Abort, RacingWithDataMovesLeavesBuffersAlone) {
  constexpr std::size_t count = std::size_t{1} << 20;
  for (int round = 0; round < 20; ++round) {
    ThreadWorld world(2, std::chrono::seconds(20));
    std::atomic<int> ready{0};
    on_threads(world, [&](Communicator& comm) {
      std::vector<std::int64_t> data(count, 1);
      ++ready;
      while (ready < 2) std::this_thread::yield();
      auto work = comm.start(sum_call(data.data(), data.data(), count), nullptr);
      if (comm.rank() == 1) {
        for (int i = 0; i < round * 50; ++i) std::this_thread::yield();
        comm.abort();
        EXPECT_TRUE(work->done());
      } else {
        try {
          work->wait(patience());
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::revoked);
        }
      }
      std::memset(data.data(), 0xff, count * sizeof(std::int64_t));
    });
  }
}

TEST(Timeout, OnAVirtualClock) {
  ThreadWorld world(2, std::chrono::seconds(20));
  VirtualClock clock;
  const Deadline deadline = Deadline::after(std::chrono::minutes(59), clock);
  std::atomic<bool> late{false};
  on_threads(world, [&](Communicator& comm) {
    if (comm.rank() == 1) {
      clock.advance(std::chrono::hours(1));
      while (!late) std::this_thread::yield();
      return;
    }
    EXPECT_EQ(kind_of_error([&] { comm.run(Call{}, deadline); }, "barrier"), ErrorKind::timeout);
    late = true;
  });
}

}  // namespace
}  // namespace shardproof

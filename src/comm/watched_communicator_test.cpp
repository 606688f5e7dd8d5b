// ctest: comm timeout=120
// Hangs of thread ranks, each of its kind: every waiting rank throws the verdict, long before its
// deadline; slow ranks are waited for. Waits are looked into at once here, so that tests are short;
// where a length of time decides, the clock is virtual.
#include "comm/watched_communicator.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "comm/conformance_threads.h"
#include "comm/stack.h"
#include "comm/watchdog.h"

namespace shardproof {
namespace {

constexpr WatchLimits quick{std::chrono::milliseconds(30), std::chrono::seconds(30)};

struct Rank {
  Communicator& comm;
  FlightRecorder& recorder;
};

struct Outcome {
  std::vector<std::optional<Error>> errors;  // by rank
  std::vector<std::string> notes;
};

class WatchedWorld {
 public:
  WatchedWorld(int ranks, bool verified, WatchLimits limits = quick, Clock& clock = Clock::real())
      : verified_(verified),
        world_(ranks, std::chrono::seconds(8)),
        watchdog_(limits, {.note = [this](const std::string& text) {
                    const std::lock_guard lock(mutex_);
                    outcome_.notes.push_back(text);
                  }}) {
    outcome_.errors.resize(static_cast<std::size_t>(ranks));
    for (int rank = 0; rank < ranks; ++rank) {
      watches_.push_back(std::make_shared<RankWatch>(
          std::make_shared<FlightRecorder>(rank, 64, clock), limits.look));
      watchdog_.join(watches_.back());
    }
  }

  Outcome run(const std::function<void(Rank)>& body) {
    conformance::own_on_threads(world_, [&](std::unique_ptr<Communicator> backend) {
      const auto index = static_cast<std::size_t>(backend->rank());
      const auto& watch = watches_[index];
      StackOptions options;
      options.recorder = std::shared_ptr<FlightRecorder>(watch, &watch->recorder());
      options.watch = watch;
      if (verified_) options.verify.emplace();
      const auto comm = wrap(std::move(backend), options);
      try {
        body({*comm, watch->recorder()});
      } catch (const Error& error) {
        outcome_.errors[index] = error;
      }
      watchdog_.leave(*watch);
    });
    return outcome_;
  }

  // Until a thread of the rank stands in an operation.
  void await_standing(int rank) const {
    while (!watches_[static_cast<std::size_t>(rank)]->recorder().longest_wait()) {
      std::this_thread::yield();
    }
  }

  const std::shared_ptr<RankWatch>& watch(int rank) const {
    return watches_[static_cast<std::size_t>(rank)];
  }
  std::vector<std::string> notes() {
    const std::lock_guard lock(mutex_);
    return outcome_.notes;
  }

 private:
  const bool verified_;
  ThreadWorld world_;
  std::vector<std::shared_ptr<RankWatch>> watches_;
  std::mutex mutex_;
  Outcome outcome_;
  Watchdog watchdog_;
};

void expect_verdict(const std::optional<Error>& error, ErrorKind kind, const std::string& says) {
  ASSERT_TRUE(error.has_value()) << "expected: " << says;
  EXPECT_EQ(error->kind(), kind) << error->what();
  EXPECT_NE(std::string(error->what()).find(says), std::string::npos) << error->what();
}

class Watched : public testing::TestWithParam<bool> {};  // verified as well?
INSTANTIATE_TEST_SUITE_P(WithAndWithoutVerified, Watched, testing::Bool());

TEST_P(Watched, RanksThatWaitForEachOtherAreADeadlock) {
  WatchedWorld world(2, GetParam());
  const Outcome outcome = world.run([](Rank rank) {
    std::uint8_t byte = 0;
    recv(rank.comm, &byte, 1, Dtype::u8, 1 - rank.comm.rank(), 3);
  });
  for (const auto& error : outcome.errors) {
    expect_verdict(error, ErrorKind::timeout,
                   "deadlock: rank 0 waits in world recv from rank 1 tag 3 #0 (1 U8) for rank 1");
  }
}

TEST_P(Watched, ARankInAnotherOperationIsNamed) {
  WatchedWorld world(4, GetParam());
  const Outcome outcome = world.run([&](Rank rank) {
    std::uint8_t byte = 0;
    if (rank.comm.rank() == 0 || rank.comm.rank() == 3) {  // the circle closes last
      world.await_standing(1);
      world.await_standing(2);
    }
    if (rank.comm.rank() == 3) return recv(rank.comm, &byte, 1, Dtype::u8, 0, 0);
    barrier(rank.comm);
  });
  for (const auto& error : outcome.errors) {
    expect_verdict(error, ErrorKind::timeout, "rank 3 took another branch than world barrier #0");
  }
  EXPECT_EQ(outcome.errors[0]->world_rank(), 3);
}

TEST_P(Watched, ARankThatHasEndedIsNamed) {
  WatchedWorld world(3, GetParam());
  const Outcome outcome = world.run([](Rank rank) {
    barrier(rank.comm);
    if (rank.comm.rank() != 1) barrier(rank.comm);
  });
  EXPECT_FALSE(outcome.errors[1].has_value());
  for (const std::size_t rank : {0, 2}) {
    expect_verdict(outcome.errors[rank], ErrorKind::peer_died,
                   "rank 1 is gone: missing from world barrier #1");
  }
}

TEST_P(Watched, ARankThatWentPastABucketIsNamed) {
  WatchedWorld world(3, GetParam());
  const Outcome outcome = world.run([&](Rank rank) {
    const auto bucket = rank.comm.split(0, rank.comm.rank(), "bucket", default_deadline(rank.comm));
    rank.recorder.enter({7, 1, "backward"});
    std::vector<float> gradient(8);
    std::unique_ptr<Work> work;
    if (rank.comm.rank() != 2) {
      Call call;
      call.kind = CallKind::all_reduce;
      call.send = call.recv = gradient.data();
      call.count = gradient.size();
      work = bucket->start(call, nullptr);
    }
    rank.recorder.enter({7, 2, "reduced"});
    if (work) {
      work->wait(default_deadline(rank.comm));
    } else {
      world.await_standing(0);
      world.await_standing(1);
    }
    barrier(rank.comm);
  });
  for (const auto& error : outcome.errors) {
    expect_verdict(error, ErrorKind::timeout,
                   "rank 2 went past world/bucket.0 all_reduce #0, in which ranks 0,1 have waited");
    expect_verdict(error, ErrorKind::timeout, "rank 2 at step 7, reduced: waits");
  }
}

TEST_P(Watched, AnEndlessLoopIsNamed) {
  VirtualClock clock;
  WatchedWorld world(3, GetParam(), quick, clock);
  const Outcome outcome = world.run([&](Rank rank) {
    if (rank.comm.rank() != 1) return barrier(rank.comm);
    world.await_standing(0);
    world.await_standing(2);
    clock.advance(std::chrono::seconds(31));
    while (!rank.comm.poisoned()) std::this_thread::yield();
  });
  for (const std::size_t rank : {0, 2}) {
    expect_verdict(outcome.errors[rank], ErrorKind::timeout,
                   "rank 1 is hung outside communication (no sign of progress for 31.0 s)");
  }
}

TEST_P(Watched, ASlowRankIsNamedAndWaitedFor) {
  VirtualClock clock;
  WatchedWorld world(3, GetParam(), quick, clock);
  const Outcome outcome = world.run([&](Rank rank) {
    if (rank.comm.rank() == 2) {
      world.await_standing(0);
      world.await_standing(1);
      for (int action = 0; action < 3; ++action) {  // slow, and moving
        clock.advance(std::chrono::seconds(29));
        rank.recorder.enter({0, action, "forward"});
      }
      while (world.notes().empty()) std::this_thread::yield();
    }
    barrier(rank.comm);
  });
  for (const auto& error : outcome.errors) EXPECT_FALSE(error.has_value()) << error->what();
  ASSERT_EQ(outcome.notes.size(), 1u);
  EXPECT_NE(outcome.notes[0].find("rank 2 is slow: "), std::string::npos) << outcome.notes[0];
}

TEST(WatchedCommunicator, TagsThatDoNotMeetAreBothNamed) {
  WatchedWorld world(2, false);
  const Outcome outcome = world.run([](Rank rank) {
    Call call;
    std::uint8_t byte = 0;
    call.kind = rank.comm.rank() == 0 ? CallKind::send : CallKind::recv;
    call.send = &byte;
    call.recv = &byte;
    call.dtype = Dtype::u8;
    call.count = 1;
    call.peer = 1 - rank.comm.rank();
    call.tag = rank.comm.rank();  // they do not meet
    rank.comm.run(call, default_deadline(rank.comm));
  });
  for (const auto& error : outcome.errors) {
    expect_verdict(error, ErrorKind::timeout, "deadlock");
    expect_verdict(error, ErrorKind::timeout, "tag 0");
    expect_verdict(error, ErrorKind::timeout, "tag 1");
  }
}

TEST(WatchedCommunicator, AVerdictOfAnotherProcessEndsTheWait) {
  WatchedWorld world(2, true, {std::chrono::hours(1), std::chrono::hours(1)});
  const Outcome outcome = world.run([&](Rank rank) {
    if (rank.comm.rank() == 0) return barrier(rank.comm);
    world.await_standing(0);
    world.watch(0)->judge(Error(ErrorKind::timeout, "elsewhere", "found by another rank"));
    world.watch(0)->release();
  });
  expect_verdict(outcome.errors[0], ErrorKind::timeout, "found by another rank");
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "harness/rank_pool.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "comm/thread_communicator.h"

namespace shardproof {
namespace {

TEST(RankPool, RunsEveryRankOnAThreadOfItsOwn) {
  for (const int size : {1, 4}) {
    std::mutex mutex;
    std::set<int> ranks;
    std::set<std::thread::id> threads;
    run_ranks(
        size,
        [&](int rank) {
          const std::lock_guard lock(mutex);
          ranks.insert(rank);
          threads.insert(std::this_thread::get_id());
        },
        [] { FAIL() << "nothing failed"; });
    EXPECT_EQ(ranks.size(), static_cast<std::size_t>(size));
    EXPECT_EQ(*ranks.rbegin(), size - 1);
    EXPECT_FALSE(threads.contains(std::this_thread::get_id()));
  }
}

// Rank 2 fails; the others wait for it in a collective until they are released.
TEST(RankPool, TheFirstFailureIsRethrownAndTheOthersAreReleased) {
  ThreadWorld world(4, std::chrono::seconds(20));
  std::vector<std::string> notes;
  int released = 0;
  try {
    run_ranks(
        4,
        [&](int rank) {
          const auto comm = world.communicator(rank);
          if (rank == 2) throw Error(ErrorKind::numeric, "step 3", "a NaN", 2);
          barrier(*comm);
        },
        [&] {
          ++released;
          world.revoke_all();
        },
        &notes);
    FAIL() << "the failure was lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::numeric);
    EXPECT_EQ(error.world_rank(), 2);
  }
  EXPECT_EQ(released, 1);
  ASSERT_EQ(notes.size(), 3u);
  std::set<std::string> named;
  for (const std::string& note : notes) {
    EXPECT_NE(note.find("revoked"), std::string::npos) << note;
    named.insert(note.substr(0, 7));
  }
  EXPECT_EQ(named, (std::set<std::string>{"rank 0:", "rank 1:", "rank 3:"}));
}

// A timeout revokes the group at once; the rank that finds it revoked may be the first to end.
TEST(RankPool, AGroupThatWasRevokedIsNoCause) {
  std::promise<void> ended;
  const std::shared_future<void> after = ended.get_future().share();
  std::vector<std::string> notes;
  try {
    run_ranks(
        3,
        [&](int rank) {
          if (rank == 0) throw Error(ErrorKind::revoked, "send", "was revoked", 0);
          ASSERT_EQ(after.wait_for(std::chrono::seconds(30)), std::future_status::ready);
          if (rank == 1) throw Error(ErrorKind::timeout, "send", "the deadline", 1);
          throw Error(ErrorKind::revoked, "send", "was revoked too", 2);
        },
        [&] { ended.set_value(); }, &notes);
    FAIL() << "the failure was lost";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::timeout) << error.what();
    EXPECT_EQ(error.world_rank(), 1);
  }
  EXPECT_EQ(notes.size(), 2u);
  for (const std::string& note : notes) EXPECT_NE(note.find("was revoked"), note.npos) << note;
}

TEST(RankPool, AnyExceptionIsAFailure) {
  const auto fail = [](int) { throw std::runtime_error("no"); };
  EXPECT_THROW(run_ranks(1, fail, [] {}), std::runtime_error);
}

// The system refuses threads when their stacks do not fit into the address space; in a process of
// its own, for the limit stays. Ranks that were started wait for all until they are released.
int run_with_little_memory() {
  constexpr int size = 512;
  ThreadWorld world(size, std::chrono::seconds(20));
  const rlimit limit{std::size_t{1} << 30, std::size_t{1} << 30};
  if (setrlimit(RLIMIT_AS, &limit) != 0) return 77;
  try {
    run_ranks(
        size, [&](int rank) { barrier(*world.communicator(rank)); }, [&] { world.revoke_all(); });
  } catch (const Error& error) {
    const std::string text = error.what();
    const bool named = text.find("thread of rank ") != std::string::npos &&
                       text.find("cannot be started") != std::string::npos;
    return error.kind() == ErrorKind::environment && named ? 3 : 1;
  }
  return 2;
}

TEST(RankPoolDeathTest, AThreadThatTheSystemRefusesEndsTheOthers) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::_Exit(run_with_little_memory()), testing::ExitedWithCode(3), "");
}

TEST(RankPoolDeathTest, NeedsARank) {
  EXPECT_DEATH(run_ranks(
                   0, [](int) {}, [] {}),
               "0 vs 0|size");
}

}  // namespace
}  // namespace shardproof

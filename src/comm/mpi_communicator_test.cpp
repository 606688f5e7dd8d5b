// ctest: comm mpi=1,2,3,4,6 timeout=120 processors=2
// The conformance bodies and what is particular to MPI, on ranks that are processes. Every rank
// runs every test; rank 0 prints, the others print failures only.
#include "comm/mpi_communicator.h"

#include <gtest/gtest.h>

#include <iostream>
#include <thread>

#include "comm/conformance.h"

namespace shardproof {
namespace {

Communicator* world = nullptr;

// An exception on one rank fails the test and revokes the world, so that the others end too.
void on_this_rank(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
    world->revoke();
  }
}

class MpiConformance : public testing::TestWithParam<conformance::Body> {};

TEST_P(MpiConformance, Holds) {
  const conformance::Backend backend{CommBackend::mpi, MpiWorld::has_ulfm()};
  on_this_rank([&] { GetParam().run(*world, backend); });
}

INSTANTIATE_TEST_SUITE_P(Bodies, MpiConformance, testing::ValuesIn(conformance::bodies()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(MpiCommunicator, WorldIsAllProcesses) {
  EXPECT_EQ(world->group().name, "world");
  ASSERT_EQ(world->group().world_ranks.size(), static_cast<std::size_t>(world->size()));
  for (int r = 0; r < world->size(); ++r) {
    EXPECT_EQ(world->group().world_ranks[static_cast<std::size_t>(r)], r);
  }
  EXPECT_FALSE(world->poisoned());
  EXPECT_TRUE(world->failed_ranks().empty());
  EXPECT_NE(MpiWorld::library_version().find("MPI"), std::string::npos);
}

// The bytes of a failed send may still be asked for; what arrives then must be what was sent, not
// what the caller wrote into its buffer since.
TEST(MpiCommunicator, PeersNeverReadTheCallersBuffer) {
  if (world->size() < 2 || world->rank() > 1) GTEST_SKIP() << "for two ranks";
  on_this_rank([&] {
    constexpr std::size_t count = std::size_t{200} << 10;  // a rendezvous message, in one chunk
    std::vector<std::uint8_t> data(count, 1);
    std::uint8_t go = 0;
    if (world->rank() == 0) {
      auto large =
          world->start(conformance::message(CallKind::send, data.data(), count, 1, 5), nullptr);
      // Begun after the large one: when it has arrived, the large one has been posted.
      world->start(conformance::message(CallKind::send, &go, 1, 1, 6), nullptr)
          ->wait(default_deadline(*world));
      recv(*world, &go, 1, Dtype::u8, 1, 7);
      std::fill(data.begin(), data.end(), std::uint8_t{2});
      send(*world, &go, 1, Dtype::u8, 1, 8);
      large->wait(default_deadline(*world));
    } else {
      recv(*world, &go, 1, Dtype::u8, 0, 6);
      send(*world, &go, 1, Dtype::u8, 0, 7);
      recv(*world, &go, 1, Dtype::u8, 0, 8);
      recv(*world, data.data(), count, Dtype::u8, 0, 5);
      EXPECT_EQ(data, std::vector<std::uint8_t>(count, 1));
    }
  });
}

TEST(MpiCommunicator, MessagesOfAnotherLengthAreAMismatch) {
  if (world->size() < 2) GTEST_SKIP() << "needs two ranks";
  on_this_rank([&] {
    for (const std::size_t expected : {std::size_t{5}, std::size_t{50}}) {
      auto child = conformance::child_of(*world, "lengths");
      std::vector<std::uint8_t> data(50);
      if (world->rank() == 0) {
        send(*child, data.data(), 20, Dtype::u8, 1, 0);
      } else if (world->rank() == 1) {
        EXPECT_EQ(conformance::kind_of_error(
                      [&] { recv(*child, data.data(), expected, Dtype::u8, 0, 0); }, "recv"),
                  ErrorKind::mismatch);
        EXPECT_TRUE(child->poisoned());
      }
      barrier(*world);
    }
  });
}

TEST(MpiCommunicator, CallsStartedOnDifferentGroupsNeedNoCommonOrder) {
  if (world->size() < 2) GTEST_SKIP() << "needs two ranks";
  on_this_rank([&] {
    auto a = conformance::child_of(*world, "a");
    auto b = conformance::child_of(*world, "b");
    std::int64_t one = 1, sum_a = 0, sum_b = 0;
    Communicator* order[] = {a.get(), b.get()};
    std::int64_t* sums[] = {&sum_a, &sum_b};
    std::unique_ptr<Work> works[2];
    for (const int i : {0, 1}) {
      const int which = world->rank() % 2 == 0 ? i : 1 - i;
      works[which] = order[which]->start(conformance::sum_call(&one, sums[which], 1), nullptr);
    }
    for (auto& work : works) work->wait(default_deadline(*world));
    EXPECT_EQ(sum_a, world->size());
    EXPECT_EQ(sum_b, world->size());
  });
}

// The second call sends what the first has received: it must not begin before.
TEST(MpiCommunicator, AStartedCollectiveReadsWhatTheOneBeforeItWrote) {
  on_this_rank([&] {
    const std::int64_t ranks = world->size();
    std::int64_t x = 1, y = 0, z = 0;
    std::uint8_t go = 1;
    if (world->rank() != 0) recv(*world, &go, 1, Dtype::u8, 0, 1);
    auto first = world->start(conformance::sum_call(&x, &y, 1), nullptr);
    auto second = world->start(conformance::sum_call(&y, &z, 1), nullptr);
    // Begun after both, so that both are under way, or should not be, before anybody else joins.
    std::vector<std::unique_ptr<Work>> sends;
    for (int r = 1; world->rank() == 0 && r < world->size(); ++r) {
      sends.push_back(world->start(conformance::message(CallKind::send, &go, 1, r, 1), nullptr));
    }
    second->wait(default_deadline(*world));
    EXPECT_EQ(y, ranks);
    EXPECT_EQ(z, ranks * ranks);
  });
}

// Each goes in many pieces, and the receiver takes them for one another unless they keep their
// order.
TEST(MpiCommunicator, LargeMessagesOfOneTagKeepTheirOrder) {
  if (world->size() < 2 || world->rank() > 1) GTEST_SKIP() << "for two ranks";
  on_this_rank([&] {
    constexpr std::size_t bytes = std::size_t{3} << 20;
    std::vector<std::uint8_t> a(bytes, 1), b(bytes, 2);
    std::vector<std::unique_ptr<Work>> works;
    const CallKind kind = world->rank() == 0 ? CallKind::send : CallKind::recv;
    for (auto* data : {&a, &b}) {
      if (kind == CallKind::recv) std::fill(data->begin(), data->end(), std::uint8_t{0});
      works.push_back(world->start(
          conformance::message(kind, data->data(), bytes, 1 - world->rank(), 4), nullptr));
    }
    for (auto& work : works) work->wait(default_deadline(*world));
    EXPECT_EQ(a, std::vector<std::uint8_t>(bytes, 1));
    EXPECT_EQ(b, std::vector<std::uint8_t>(bytes, 2));
  });
}

TEST(MpiCommunicator, AbortFromAnotherThreadReleasesARun) {
  if (world->size() < 2) GTEST_SKIP() << "needs two ranks";
  on_this_rank([&] {
    auto child = conformance::child_of(*world, "hangs");
    if (world->rank() == 0) {
      std::thread other([&] {
        while (child->traffic().calls == 0) std::this_thread::yield();  // until it is in there
        child->abort();
      });
      EXPECT_EQ(conformance::kind_of_error([&] { barrier(*child); }, "barrier"),
                ErrorKind::revoked);
      other.join();
    }
    barrier(*world);
  });
}

// Failures of ranks other than 0, and nothing else.
class FailurePrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cerr << "rank " << world->rank() << ": " << result.file_name() << ":"
              << result.line_number() << ": " << result.message() << std::endl;
  }
};

int run_tests() {
  MpiWorld mpi(std::chrono::seconds(20));
  const auto comm = mpi.communicator();
  world = comm.get();
  if (world->rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
  }
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return shardproof::run_tests();
}

// ctest: comm
// agreement: a failure anywhere is the same failure everywhere.
#include "checkpoint/agreement.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::run_world;

TEST(Agreed, GivesEveryRanksTextInRankOrder) {
  for (int ranks : {1, 2, 5}) {
    run_world(ranks, [&](Communicator& comm) {
      const auto texts =
          agreed(comm, [&] { return std::string(static_cast<std::size_t>(comm.rank()), 'E'); });
      ASSERT_EQ(texts.size(), static_cast<std::size_t>(ranks));
      for (std::size_t r = 0; r < texts.size(); ++r) EXPECT_EQ(texts[r], std::string(r, 'E'));
    });
  }
}

TEST(Agreed, AFailureOnOneRankIsThrownOnAllWithKindPlaceDetailAndRank) {
  std::atomic<int> threw{0};
  run_world(4, [&](Communicator& comm) {
    try {
      agreed(comm, [&]() -> std::string {
        if (comm.rank() == 2) throw Error(ErrorKind::conflict, "the \"place\"", "de\ntail\xff");
        return "fine";
      });
      ADD_FAILURE() << "rank " << comm.rank() << " went on";
    } catch (const AgreedError& error) {
      ++threw;
      EXPECT_EQ(error.kind(), ErrorKind::conflict);
      EXPECT_EQ(error.place(), "the \"place\"");
      EXPECT_EQ(error.detail(), "de\ntail\xEF\xBF\xBD");  // no text that JSON cannot carry
      EXPECT_EQ(error.world_rank(), 2);
    }
    // Nobody is at work any more, and the group is usable.
    EXPECT_EQ(agreed(comm, [] { return std::string("on"); }).size(), 4u);
  });
  EXPECT_EQ(threw, 4);
}

TEST(Agreed, SeveralFailuresAreCountedAndOtherExceptionsBecomeErrors) {
  std::atomic<int> threw{0};
  run_world(3, [&](Communicator& comm) {
    try {
      agreed(comm, [&]() -> std::string {
        if (comm.rank() == 0) return "fine";
        throw std::runtime_error("rank " + std::to_string(comm.rank()));
      });
    } catch (const AgreedError& error) {
      ++threw;
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_EQ(error.detail(), "rank 1 (the first of 2 ranks that failed)");
      EXPECT_EQ(error.world_rank(), 1);
    }
  });
  EXPECT_EQ(threw, 3);
}

}  // namespace
}  // namespace shardproof

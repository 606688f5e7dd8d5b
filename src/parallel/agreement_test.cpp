// ctest: unit
#include "parallel/agreement.h"

#include <gtest/gtest.h>

#include <optional>

#include "base/error.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

// What every rank was told, by rank; nothing where all agreed.
std::vector<std::optional<Error>> verdicts(int ranks,
                                           const std::function<std::vector<Fact>(int)>& facts) {
  std::vector<std::optional<Error>> out(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](Communicator& comm) {
    try {
      agree_on(comm, facts(comm.rank()));
    } catch (const Error& error) {
      out[static_cast<std::size_t>(comm.rank())] = error;
    }
  });
  return out;
}

TEST(Agreement, EqualFactsPass) {
  for (const int ranks : {1, 2, 5}) {
    for (const auto& error : verdicts(ranks, [](int) {
           return std::vector<Fact>{{"config", "ab"}, {"data", ""}};
         })) {
      EXPECT_FALSE(error.has_value());
    }
  }
  EXPECT_FALSE(verdicts(2, [](int) { return std::vector<Fact>{}; })[0].has_value());
}

TEST(Agreement, NamesTheRankThatDiffersAndBothValuesOnEveryRank) {
  const auto errors = verdicts(4, [](int rank) {
    return std::vector<Fact>{{"config", "same"}, {"tokenizer", rank == 2 ? "bytes" : "words"}};
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->kind(), ErrorKind::mismatch);
    EXPECT_EQ(error->world_rank(), 2);
    EXPECT_EQ(error->place(), "agreement on tokenizer");
    EXPECT_EQ(error->detail(), "rank 2 has bytes; ranks 0, 1, 3 have words");
  }
}

TEST(Agreement, TheOddRankMayBeRankZero) {
  const auto errors = verdicts(3, [](int rank) {
    return std::vector<Fact>{{"data", rank == 0 ? "a" : "b"}};
  });
  ASSERT_TRUE(errors[1].has_value());
  EXPECT_EQ(errors[1]->world_rank(), 0);
}

TEST(Agreement, OnATieTheLowestRankIsBelieved) {
  const auto errors = verdicts(2, [](int rank) {
    return std::vector<Fact>{{"data", rank == 0 ? "a" : "b"}};
  });
  ASSERT_TRUE(errors[0].has_value());
  EXPECT_EQ(errors[0]->world_rank(), 1);
}

TEST(Agreement, NamesTheRanksOfEverySide) {
  const auto errors = verdicts(7, [](int rank) {
    const std::string steps = rank == 5 ? "40" : rank == 1 || rank == 2 ? "" : "30";
    return std::vector<Fact>{{"training.steps", steps}};
  });
  for (const auto& error : errors) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->place(), "agreement on training.steps");
    EXPECT_EQ(error->detail(), "rank 5 has 40; ranks 1, 2 have \"\"; ranks 0, 3, 4, 6 have 30");
  }
  const auto halves = verdicts(6, [](int rank) {
    return std::vector<Fact>{{"checkpoint.every", rank < 3 ? "2" : "3"}};
  });
  EXPECT_EQ(halves[0]->detail(), "ranks 3-5 have 3; ranks 0-2 have 2");
}

TEST(Agreement, AFactThatIsMissingDiffers) {
  const auto errors = verdicts(3, [](int rank) {
    return rank == 1 ? std::vector<Fact>{{"a", "1"}, {"extra", "x"}}
                     : std::vector<Fact>{{"a", "1"}};
  });
  ASSERT_TRUE(errors[0].has_value());
  EXPECT_EQ(errors[0]->world_rank(), 1);
  EXPECT_EQ(errors[0]->detail(), "rank 1 has x; ranks 0, 2 have (absent)");
}

}  // namespace
}  // namespace shardproof

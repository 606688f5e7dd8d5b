// ctest: unit
// Each rule over attempts that have failed, and what must not follow from them.
#include "harness/attempt_history.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

Attempt death(int rank, std::int64_t steps, const std::string& layout = "dp4") {
  return {layout, "step-00000002", steps, 1.5,
          Error(ErrorKind::peer_died, "step 3, backward", "died", rank)};
}

Attempt failure(ErrorKind kind, std::int64_t steps, const std::string& from,
                const std::string& place = "step 3") {
  return {"dp4", from, steps, 1.5, Error(kind, place, "went wrong")};
}

TEST(AttemptHistory, WhatAMachineDidIsTriedAgainSoManyTimes) {
  for (const ErrorKind kind : {ErrorKind::timeout, ErrorKind::peer_died, ErrorKind::revoked,
                               ErrorKind::mismatch, ErrorKind::io, ErrorKind::numeric}) {
    EXPECT_EQ(reason_to_give_up({failure(kind, 1, "")}, 1), "") << name(kind);
    EXPECT_NE(reason_to_give_up({failure(kind, 1, ""), failure(kind, 1, "", "step 4")}, 1), "");
  }
}

TEST(AttemptHistory, WhatEndsTheSameWayIsNot) {
  for (const ErrorKind kind :
       {ErrorKind::bad_input, ErrorKind::environment, ErrorKind::refused, ErrorKind::conflict}) {
    EXPECT_EQ(reason_to_give_up({failure(kind, 4, "")}, 9), "not tried again after 0 restarts");
    EXPECT_NE(reason_to_give_up({death(1, 3), failure(kind, 4, "")}, 9), "");
  }
}

TEST(AttemptHistory, ADamagedCheckpointIsPassedOverUnlessItWasChosen) {
  EXPECT_NE(reason_to_give_up({failure(ErrorKind::corrupt, 0, "step-00000002")}, 9), "");
  EXPECT_EQ(reason_to_give_up({failure(ErrorKind::corrupt, 1, "step-00000002")}, 9), "");
  EXPECT_EQ(reason_to_give_up({death(1, 1), failure(ErrorKind::corrupt, 0, "step-00000002")}, 9),
            "");
}

TEST(AttemptHistory, ANumberIsTheRunsOwnWhenItGoesWrongAgainAfterSteps) {
  const auto numeric = [](std::int64_t steps, const std::string& from, const std::string& place) {
    return failure(ErrorKind::numeric, steps, from, place);
  };
  const Attempt first = numeric(4, "", "step 4");
  EXPECT_EQ(reason_to_give_up({first, numeric(0, "step-00000004", "step 4")}, 9), "");
  EXPECT_TRUE(began_wrong({first, numeric(0, "step-00000004", "step 4")}));
  EXPECT_NE(reason_to_give_up({first, numeric(2, "step-00000002", "step 4")}, 9), "");
  EXPECT_EQ(reason_to_give_up({first, numeric(3, "step-00000002", "step 5")}, 9), "");
  EXPECT_NE(reason_to_give_up({numeric(0, "", "step 0"), numeric(0, "", "step 0")}, 9), "")
      << "from the beginning there is nothing to pass over";
  EXPECT_FALSE(began_wrong({numeric(0, "step-00000004", "step 4")})) << "the user's own choice";
  EXPECT_FALSE(began_wrong({first, death(1, 0)}));
}

TEST(AttemptHistory, ARankIsGoneWhenItDiesAgainBeforeAStep) {
  EXPECT_FALSE(rank_is_gone({death(1, 0)}, false));
  EXPECT_TRUE(rank_is_gone({death(1, 5), death(1, 0)}, false));
  EXPECT_FALSE(rank_is_gone({death(1, 5), death(1, 1)}, false));
  EXPECT_FALSE(rank_is_gone({death(2, 5), death(1, 0)}, false));
  EXPECT_FALSE(rank_is_gone({death(1, 5, "dp8"), death(1, 0)}, false));
  EXPECT_FALSE(rank_is_gone({death(1, 5), failure(ErrorKind::timeout, 0, "")}, false));
  EXPECT_TRUE(rank_is_gone({death(1, 5)}, true)) << "elastic";
  EXPECT_FALSE(rank_is_gone({failure(ErrorKind::timeout, 0, "")}, true));
}

TEST(AttemptHistory, TheErrorHoldsAllAttempts) {
  const Error alone = given_up({death(1, 3)}, "why");
  EXPECT_STREQ(alone.what(), death(1, 3).error.what());
  const Error all = given_up({death(2, 3), death(1, 0)}, "why");
  EXPECT_EQ(all.kind(), ErrorKind::peer_died);
  EXPECT_EQ(all.world_rank(), 1);
  EXPECT_EQ(all.place(), "step 3, backward");
  EXPECT_EQ(all.detail(),
            "died; why: attempt 1 " + death(2, 3).text() + "; attempt 2 " + death(1, 0).text());
  EXPECT_EQ(death(2, 3).text(), "on dp4 from step-00000002, 3 steps in 1.5 s: " +
                                    std::string(death(2, 3).error.what()));
}

}  // namespace
}  // namespace shardproof

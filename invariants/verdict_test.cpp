// ctest: invariant
#include "invariants/verdict.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

Verdict with(Outcome outcome) {
  Verdict verdict;
  verdict.outcome = outcome;
  return verdict;
}

TEST(ExitCode, NothingCheckedIsNeverZero) {
  EXPECT_EQ(exit_code(std::vector<Verdict>{}), 3);
}

TEST(ExitCode, AllPassIsZero) {
  EXPECT_EQ(exit_code({with(Outcome::pass), with(Outcome::pass)}), 0);
  EXPECT_EQ(exit_code({with(Outcome::pass), with(Outcome::expected_fail)}), 0);
}

TEST(ExitCode, AFailOutweighsAnInconclusive) {
  EXPECT_EQ(exit_code({with(Outcome::pass), with(Outcome::inconclusive)}), 3);
  EXPECT_EQ(exit_code({with(Outcome::inconclusive), with(Outcome::fail)}), 1);
  EXPECT_EQ(exit_code({with(Outcome::fail), with(Outcome::pass)}), 1);
}

TEST(ExitCode, AVerdictNobodyDecidedIsInconclusive) {
  EXPECT_EQ(exit_code({Verdict{}}), 3);
}

TEST(OutcomeName, IsTheWordOfTheReport) {
  EXPECT_EQ(name(Outcome::pass), "pass");
  EXPECT_EQ(name(Outcome::fail), "fail");
  EXPECT_EQ(name(Outcome::inconclusive), "inconclusive");
  EXPECT_EQ(name(Outcome::expected_fail), "expected-fail");
}

TEST(DifferencePrint, IsAnAddressWithBothPatterns) {
  const Difference tensor{13, "grad", "embed.weight", 1, 2, 77, "3f800000", "3f800001"};
  EXPECT_EQ(tensor.print(),
            "step 13, grad embed.weight piece 1, rank 2, element 77: expected 3f800000, found "
            "3f800001");
}

TEST(DifferencePrint, TellsIndexRanksAndTimesWhereTheyAreKnown) {
  Difference at{13, "grad", "w", -1, 2, 77, "a", "b"};
  at.index = {3, 17};
  at.left_ranks = {0};
  at.right_ranks = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  at.times = 12345;
  EXPECT_EQ(at.print(),
            "step 13, grad w, rank 2, element 77, index [3,17], on rank 0 against ranks "
            "1,2,3,4,5,6,7,8 and 2 more: expected a, found b, 1.23e+04 x the rounding error");
  const Json json = at.to_json();
  EXPECT_EQ(json.at("index"), Json({3, 17}));
  EXPECT_EQ(json.at("expected_ranks"), Json({0}));
  EXPECT_EQ(json.at("found_ranks").size(), 10u);
  EXPECT_EQ(json.at("times"), 12345);
  for (const char* key : {"index", "expected_ranks", "found_ranks", "times"}) {
    EXPECT_FALSE(Difference{}.to_json().contains(key)) << key;
  }
}

TEST(DifferencePrint, LeavesOutWhatIsNotKnown) {
  Difference scalar;
  scalar.step = 2;
  scalar.phase = "loss";
  scalar.left = "a";
  scalar.right = "b";
  EXPECT_EQ(scalar.print(), "step 2, loss: expected a, found b");
}

TEST(VerdictJson, HoldsTheDifferenceOrNull) {
  Verdict verdict = with(Outcome::fail);
  verdict.check = "layout";
  EXPECT_TRUE(verdict.to_json().at("difference").is_null());
  verdict.difference = Difference{1, "param", "w", 0, 3, 5, "00", "01"};
  const Json json = verdict.to_json();
  EXPECT_EQ(json.at("outcome"), "fail");
  EXPECT_EQ(json.at("difference").at("element"), 5);
  EXPECT_EQ(json.at("difference").at("expected"), "00");
}

}  // namespace
}  // namespace shardproof

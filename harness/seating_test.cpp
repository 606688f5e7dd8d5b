// ctest: unit
// Seats by hand: the ready first, all where they have no layout or begin anew.
#include "harness/seating.h"

#include <gtest/gtest.h>

#include "train/case_testing.h"

namespace shardproof {
namespace {

std::string seats(const std::string& layout, const std::vector<bool>& ready, bool anew = false) {
  const auto found = seating(small_case(layout, 4), ready, anew);
  if (!found) return "none";
  std::string text = found->layout + ":";
  for (const int worker : found->workers) text += " " + std::to_string(worker);
  return text + (found->grows ? ", grows" : "");
}

TEST(Seating, TheReadyGoOnAtOnceAndOthersJoinLater) {
  EXPECT_EQ(seats("dp4.zero1", {true, true, true, true, false}), "dp4.zero1: 0 1 2 3");
  EXPECT_EQ(seats("dp4.zero1", {true, true, true, false}), "dp3.zero1: 0 1 2, grows");
  EXPECT_EQ(seats("dp4.zero1", {true, false, true, true}), "dp3.zero1: 0 2 3, grows");
  EXPECT_EQ(seats("dp4.zero1", {true, true, true}), "dp3.zero1: 0 1 2");
  EXPECT_EQ(seats("dp2.tp2", {true, true, true}), "tp2: 0 1") << "one waits, and nothing grows";
}

TEST(Seating, AllCountWhereTheyBeginAnewOrNobodyElseCan) {
  EXPECT_EQ(seats("dp4.zero1", {true, true, true, false}, true), "dp4.zero1: 0 1 2 3");
  EXPECT_EQ(seats("dp4.zero1", {false, false}), "dp2.zero1: 0 1");
  EXPECT_EQ(seats("dp4.zero1", {}), "none");
  Config fixed = small_case("dp4.zero1", 4);
  fixed.training.accumulation = 3;
  EXPECT_FALSE(seating(fixed, {true, true, true}, false));
  const auto all = seating(fixed, {true, true, true, false}, false);
  ASSERT_TRUE(all);
  EXPECT_EQ(all->workers, (std::vector<int>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace shardproof

// ctest: unit timeout=30
#include "train/vote.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(Vote, TheOddOneOfThreeIsNamed) {
  const Vote of = vote({{0, "a"}, {2, "b"}, {5, "a"}});
  EXPECT_FALSE(of.unanimous);
  EXPECT_TRUE(of.decided);
  EXPECT_EQ(of.odd, std::vector<int>{2});
  EXPECT_EQ(of.sentence, "rank 2 is the odd one out (ranks 0, 5: a; rank 2: b)");
}

TEST(Vote, WithoutAMajorityAllAreNamed) {
  const Vote two = vote({{1, "a"}, {0, "b"}});
  EXPECT_FALSE(two.decided);
  EXPECT_EQ(two.odd, (std::vector<int>{0, 1}));
  EXPECT_NE(two.sentence.find("ranks 0, 1 differ"), std::string::npos) << two.sentence;
  EXPECT_FALSE(vote({{0, "a"}, {1, "a"}, {2, "b"}, {3, "b"}}).decided);
  EXPECT_FALSE(vote({{0, "a"}, {1, "b"}, {2, "c"}}).decided);
}

TEST(Vote, EqualValuesAreNoVote) {
  EXPECT_TRUE(vote({}).unanimous);
  EXPECT_TRUE(vote({{0, "a"}}).unanimous);
  EXPECT_EQ(vote({{0, "a"}, {1, "a"}}).sentence, "");
}

}  // namespace
}  // namespace shardproof

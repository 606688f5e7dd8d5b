// ctest: unit
#include "parallel/stage_tags.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>

namespace shardproof {
namespace {

RC_GTEST_PROP(StageTags, WhatIsUnderWayTogetherHasItsOwnTag, ()) {
  const int stages = *rc::gen::inRange(2, 9);
  const int pieces = *rc::gen::inRange(1, 9);
  const int first = *rc::gen::inRange(0, 1 << 20);
  const StageTags tags(stages, pieces);
  std::set<int> seen;
  for (const bool back : {false, true}) {
    for (int boundary = 0; boundary + 1 < stages; ++boundary) {
      for (int m = first; m < first + 16; ++m) {
        for (int s = 0; s < pieces; ++s) {
          const int tag = tags.of(back, boundary, m, s);
          RC_ASSERT(0 <= tag && tag < StageTags::limit);
          RC_ASSERT(seen.insert(tag).second);
        }
      }
    }
  }
}

TEST(StageTags, TheWaysMustFit) {
  EXPECT_TRUE(StageTags::fit(1024, 512));
  EXPECT_FALSE(StageTags::fit(1025, 512));
  const StageTags tight(1024, 512);  // one tag a way: every micro-batch shares it
  EXPECT_EQ(tight.of(true, 1022, 5, 511), tight.of(true, 1022, 6, 511));
  EXPECT_LT(tight.of(true, 1022, 5, 511), StageTags::limit);
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "base/batch.h"

#include <gtest/gtest.h>

namespace shardproof {
namespace {

TEST(MicroBatch, CountsTargetsThatAreNotIgnored) {
  MicroBatch batch;
  EXPECT_EQ(batch.valid_tokens(), 0);
  batch.targets = {3, MicroBatch::ignored, 0, MicroBatch::ignored};
  EXPECT_EQ(batch.valid_tokens(), 2);  // token 0 counts
  batch.targets.assign(8, MicroBatch::ignored);
  EXPECT_EQ(batch.valid_tokens(), 0);
}

}  // namespace
}  // namespace shardproof

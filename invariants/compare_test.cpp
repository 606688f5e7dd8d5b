// ctest: invariant
#include "invariants/compare.h"

#include <gtest/gtest.h>

#include <limits>

#include "invariants/fake_trace.h"

namespace shardproof {
namespace {

StepRecord record() {
  StepRecord out;
  out.step = 3;
  out.loss = 4.5;
  out.grad_norm = 1.5;
  out.lr = 0.01;
  return out;
}

TEST(CompareScalars, EqualRecordsHaveNoDifference) {
  EXPECT_FALSE(compare_scalars(record(), record()));
  StepRecord other = record();
  other.tokens = 99;  // of the rank, not of the world
  EXPECT_FALSE(compare_scalars(record(), other));
}

TEST(CompareScalars, OneUlpIsADifferenceWithBothPatterns) {
  StepRecord other = record();
  other.loss = std::nextafter(4.5, 5.0);
  const auto difference = compare_scalars(record(), other);
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->phase, "loss");
  EXPECT_EQ(difference->left, "4012000000000000");
  EXPECT_EQ(difference->right, "4012000000000001");
}

TEST(CompareScalars, NaNsAreEqualAndSignsOfZeroAreNot) {
  StepRecord left = record(), right = record();
  left.loss = std::numeric_limits<double>::quiet_NaN();
  right.loss = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(compare_scalars(left, right));
  left.loss = 0.0;
  right.loss = -0.0;
  EXPECT_TRUE(compare_scalars(left, right));
}

TEST(CompareScalars, StepAndSkippedCount) {
  StepRecord other = record();
  other.step = 4;
  EXPECT_EQ(compare_scalars(record(), other)->phase, "step");
  other = record();
  other.skipped = true;
  EXPECT_EQ(compare_scalars(record(), other)->phase, "skipped");
}

class CompareRuns : public ::testing::Test {
 protected:
  Trace write(const FakeTrainer& fake) {
    return fake.write(folder_.file("trace" + std::to_string(next_++)));
  }
  TempFolder folder_;
  int next_ = 0;
};

TEST_F(CompareRuns, CountsWholeSteps) {
  const RunComparison runs = compare_runs(write({}), write({}), 0, 3);
  EXPECT_EQ(runs.steps, 4);
  EXPECT_GT(runs.tensors, 4 * 5 * 5);
  EXPECT_FALSE(runs.first);
  EXPECT_TRUE(runs.incomparable.empty());
}

TEST_F(CompareRuns, WorldSamplesAreTheUnionOverRanks) {
  EXPECT_EQ(world_samples(write({}), 1),
            (std::vector<std::int64_t>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}));
}

using TrajectoryDigest = CompareRuns;

TEST_F(TrajectoryDigest, IsTheSameOnEveryLayoutAndForEveryRepeat) {
  FakeTrainer one, two, three;
  one.world = 1;
  three.world = 3;
  three.share_state = false;
  const std::string digest = trajectory_digest(write(one));
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(trajectory_digest(write(two)), digest);
  EXPECT_EQ(trajectory_digest(write(three)), digest);
}

TEST_F(TrajectoryDigest, SeesEveryBit) {
  const std::string digest = trajectory_digest(write({}));
  FakeTrainer fake;
  fake.tensor = [](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s == 1 && what == "grad") values[5] += 1e-6f;
  };
  EXPECT_NE(trajectory_digest(write(fake)), digest);
  fake = {};
  fake.step = [](int, StepRecord& r) { r.grad_norm = std::nextafter(r.grad_norm, 0.0); };
  EXPECT_NE(trajectory_digest(write(fake)), digest);
  fake.step = [](int, StepRecord& r) { r.samples[0] += 1000; };
  EXPECT_NE(trajectory_digest(write(fake)), digest);
}

}  // namespace
}  // namespace shardproof

// ctest: invariant
#include "invariants/compare_tensors.h"

#include <gtest/gtest.h>

#include <limits>

#include "invariants/fake_trace.h"

namespace shardproof {
namespace {

class CompareTensors : public ::testing::Test {
 protected:
  Trace write(const FakeTrainer& fake) {
    return fake.write(folder_.file("trace" + std::to_string(next_++)));
  }
  TempFolder folder_;
  int next_ = 0;
};

FakeTrainer off_by(float change, std::size_t index = 5) {
  FakeTrainer fake;
  fake.tensor = [=](int, std::int64_t s, const std::string& what, std::vector<float>& values) {
    if (s == 1 && what == "grad") values[index] += change;
  };
  return fake;
}

TEST_F(CompareTensors, CountsWhatItCompared) {
  const TensorComparison equal = compare_tensors(write({}), write({}), 1, "grad");
  EXPECT_FALSE(equal.first);
  EXPECT_EQ(equal.incomparable, "");
  EXPECT_EQ(equal.compared, 5);
  const TensorComparison nothing = compare_tensors(write({}), write({}), 77, "grad");
  EXPECT_EQ(nothing.compared, 0);
  EXPECT_FALSE(nothing.first);
  EXPECT_EQ(nothing.incomparable, "");
}

TEST_F(CompareTensors, NamesTheElementWhereBytesWereCaptured) {
  FakeTrainer fake = off_by(1);
  const TensorComparison found = compare_tensors(write({}), write(fake), 1, "grad");
  ASSERT_TRUE(found.first);
  const PieceTable table = fake.table();
  EXPECT_EQ(
      table.range(table.index(found.first->tensor, found.first->piece)).lo + found.first->element,
      5);
  fake.capture = {};
  const TensorComparison block = compare_tensors(write({}), write(fake), 1, "grad");
  ASSERT_TRUE(block.first);
  EXPECT_EQ(block.first->tensor, found.first->tensor);
  EXPECT_EQ(block.first->element, -1);
}

TEST_F(CompareTensors, ADeclaredToleranceIsPerTensorAndInNorm) {
  const Trace reference = write({});
  const Policy loose{Policy::Kind::relative_norm, 1e-3, "another order of addition"};
  const TensorComparison near = compare_tensors(reference, write(off_by(1e-3f)), 1, "grad", loose);
  EXPECT_FALSE(near.first) << near.first->print();
  EXPECT_EQ(near.compared, 2405);
  const TensorComparison far = compare_tensors(reference, write(off_by(1)), 1, "grad", loose);
  EXPECT_TRUE(far.first);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compare_tensors(reference, write(off_by(nan)), 1, "grad", loose).first);
}

TEST_F(CompareTensors, OtherCutsNeedBytes) {
  FakeTrainer whole;
  whole.tensor_pieces = 1;
  const TensorComparison bytes = compare_tensors(write({}), write(whole), 1, "grad");
  EXPECT_FALSE(bytes.first) << bytes.first->print();
  EXPECT_EQ(bytes.compared, 2405);
  whole.capture = {};
  const TensorComparison digests = compare_tensors(write({}), write(whole), 1, "grad");
  EXPECT_FALSE(digests.first);
  EXPECT_NE(digests.incomparable, "");
}

TEST_F(CompareTensors, AMissingTensorIsADifferenceAMissingSideIsNot) {
  FakeTrainer fake;
  fake.hide = [](int, std::int64_t, const std::string&, const PieceSpec& piece) {
    return piece.name == "w.bias";
  };
  for (const bool digest : {true, false}) {
    fake.digest = digest;
    EXPECT_TRUE(compare_tensors(write({}), write(fake), 1, "grad").first);
    EXPECT_TRUE(compare_tensors(write(fake), write({}), 1, "grad").first);
  }
  fake.digest = false;
  fake.capture = {};
  const TensorComparison none = compare_tensors(write({}), write(fake), 1, "grad");
  EXPECT_FALSE(none.first);
  EXPECT_NE(none.incomparable, "");
}

}  // namespace
}  // namespace shardproof

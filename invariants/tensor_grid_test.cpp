// ctest: invariant
#include "invariants/tensor_grid.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>

#include "invariants/fake_trace.h"

namespace shardproof {
namespace {

TensorPlace place(Shape global, Box box) {
  return {"w", std::move(global), 0, std::move(box), false, {}};
}

std::vector<std::int64_t> indices(const TensorPlace& at) {
  std::vector<std::int64_t> out;
  for_each_stretch(at, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
    EXPECT_EQ(local, static_cast<std::int64_t>(out.size()));
    for (std::int64_t i = 0; i < n; ++i) out.push_back(global + i);
  });
  return out;
}

TEST(Stretches, WalkABoxInRowMajorOrder) {
  EXPECT_EQ(indices(place({4, 5}, {{1, 2}, {2, 3}})),
            (std::vector<std::int64_t>{7, 8, 9, 12, 13, 14}));
  EXPECT_EQ(indices(place({}, {{}, {}})), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(indices(place({3}, {{1}, {2}})), (std::vector<std::int64_t>{1, 2}));
  EXPECT_TRUE(indices(place({3}, {{3}, {0}})).empty());
}

TEST(Stretches, WalkARunInsideABox) {
  TensorPlace run = place({4, 5}, {{1, 2}, {2, 3}});
  run.is_run = true;
  run.range = {2, 5};
  EXPECT_EQ(indices(run), (std::vector<std::int64_t>{9, 12, 13}));
}

RC_GTEST_PROP(Stretches, PiecesTileTheirParameter, ()) {
  const auto rows = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto columns = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto depth = *rc::gen::inRange<std::int64_t>(1, 4);
  const int dim = *rc::gen::inRange(0, 3);
  const Shape shape{rows, columns, depth};
  const int pieces =
      *rc::gen::inRange<int>(1, static_cast<int>(shape[static_cast<std::size_t>(dim)]) + 1);
  std::vector<int> seen(static_cast<std::size_t>(rows * columns * depth));
  for (const PieceSpec& piece : cut("w", shape, dim, pieces)) {
    for (const std::int64_t i : indices(place(shape, piece.box)))
      ++seen[static_cast<std::size_t>(i)];
  }
  RC_ASSERT(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
}

TEST(CheckPlace, RefusesWhatLeavesTheTensor) {
  EXPECT_NO_THROW(check_place(place({4, 5}, {{0, 0}, {4, 5}}), "here"));
  EXPECT_THROW(check_place(place({4, 5}, {{1, 0}, {4, 5}}), "here"), Error);
  EXPECT_THROW(check_place(place({4, 5}, {{0}, {4}}), "here"), Error);
  EXPECT_THROW(check_place(place({4, 5}, {{-1, 0}, {2, 5}}), "here"), Error);
  EXPECT_THROW(check_place(place({1LL << 40, 1LL << 40}, {{0, 0}, {1, 1}}), "here"), Error);
  TensorPlace run = place({4, 5}, {{0, 0}, {4, 5}});
  run.is_run = true;
  run.range = {10, 21};
  EXPECT_THROW(check_place(run, "here"), Error);
}

class Grid : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(Grid, DigestsAreByBlockAndKnowTheirHolders) {
  const Trace trace = FakeTrainer{}.write(folder_.file("trace"));
  const DigestMap digests = digests_at(trace, 0, "param");
  // Two pieces of 1,200 elements have two blocks each; the bias has one.
  EXPECT_EQ(digests.size(), 5u);
  for (const auto& [key, held] : digests) {
    EXPECT_LE(key.hi - key.lo, block_elements);
    ASSERT_EQ(held.size(), 2u);
    EXPECT_EQ(held[0].rank, 0);
    EXPECT_EQ(held[1].rank, 1);
    EXPECT_EQ(held[0].digest.size(), 64u);
  }
  EXPECT_EQ(digests_at(trace, 0, "grad").size(), 5u);
  EXPECT_TRUE(digests_at(trace, 99, "param").empty());
}

TEST_F(Grid, AssemblesShardsIntoTheWhole) {
  FakeTrainer one, two;
  one.world = 1;
  const Trace whole = one.write(folder_.file("one")), shards = two.write(folder_.file("two"));
  const BytesMap a = bytes_at(whole, 1, "moment"), b = bytes_at(shards, 1, "moment");
  ASSERT_EQ(a.size(), 6u);
  ASSERT_EQ(b.size(), 6u);
  for (const auto& [name, entries] : a) {
    const std::vector<float> left = assemble(entries).floats();
    const std::vector<float> right = assemble(b.at(name)).floats();
    ASSERT_EQ(left.size(), right.size());
    EXPECT_EQ(std::memcmp(left.data(), right.data(), left.size() * sizeof(float)), 0) << name;
  }
  const Located at = locate(b.at("w.weight/exp_avg"), 2399);  // the last element
  EXPECT_EQ(at.rank, 1);
  EXPECT_EQ(at.piece, 1);
  EXPECT_EQ(at.element, 1199);
  EXPECT_EQ(locate(b.at("w.weight/exp_avg"), 2400).rank, -1);
}

TEST_F(Grid, AMissingShardIsNotAssembled) {
  BytesMap bytes = bytes_at(FakeTrainer{}.write(folder_.file("trace")), 1, "grad");
  std::vector<HeldBytes>& entries = bytes.at("w.weight");
  entries.pop_back();
  EXPECT_THROW(assemble(entries), Error);
}

TEST_F(Grid, ListsTheStepsThatHoldTensors) {
  FakeTrainer fake;
  fake.digest = false;
  fake.capture = {-1, 2};
  const Trace trace = fake.write(folder_.file("trace"));
  EXPECT_EQ(tensor_steps(trace, "param"), (std::vector<std::int64_t>{-1, 2}));
  EXPECT_EQ(tensor_steps(trace, "grad"), (std::vector<std::int64_t>{2}));
  EXPECT_TRUE(holds_tensors(trace, 2, "moment"));
  EXPECT_FALSE(holds_tensors(trace, 1, "moment"));
}

template <typename T>
const std::byte* raw(const T& value) {
  return reinterpret_cast<const std::byte*>(&value);
}

TEST(Elements, NaNsAreOneValueAndZerosAreTwo) {
  const float quiet = std::numeric_limits<float>::quiet_NaN();
  std::uint32_t bits = 0x7fc00123;
  EXPECT_TRUE(same_element(Dtype::f32, raw(quiet), raw(bits)));
  EXPECT_EQ(element_hex(Dtype::f32, raw(bits)), "nan");
  const float plus = 0.0f, minus = -0.0f;
  EXPECT_FALSE(same_element(Dtype::f32, raw(plus), raw(minus)));
  EXPECT_EQ(element_hex(Dtype::f32, raw(minus)), "80000000");
  const double one = 1;
  EXPECT_EQ(element_hex(Dtype::f64, raw(one)), "3ff0000000000000");
  const std::uint16_t half = 0x3c00, brain = 0x3f80;
  EXPECT_EQ(element_value(Dtype::f16, raw(half)), 1);
  EXPECT_EQ(element_value(Dtype::bf16, raw(brain)), 1);
  const std::int64_t many = 1LL << 40;
  EXPECT_EQ(element_value(Dtype::i64, raw(many)), std::ldexp(1.0, 40));
}

}  // namespace
}  // namespace shardproof

// ctest: unit
// Squared norms: in element order inside a block, exact over blocks, the same bits however the
// arena is shared. The clip factor: the formula at its joints.
#include "optim/grad_clip.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <limits>

#include "base/philox.h"

namespace shardproof {
namespace {

// Pieces of 10 full blocks, of one short block, and of 12 blocks with a short tail.
PieceTable table() {
  std::vector<PieceSpec> pieces;
  for (const auto& [name, rows] : {std::pair{"a", 10 * block_elements},
                                   {"b", std::int64_t{7}},
                                   {"c", 11 * block_elements + 5}}) {
    const auto whole = cut(name, {rows}, -1, 1);
    pieces.insert(pieces.end(), whole.begin(), whole.end());
  }
  return PieceTable(pieces);
}

std::vector<float> gradients(std::int64_t count, std::uint64_t seed) {
  const Random random(seed, Purpose::test);
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(random.normal(static_cast<std::uint64_t>(i)));
  }
  return values;
}

double squared_norm(const PieceTable& pieces, const std::vector<float>& values) {
  ExactSum sum;
  add_squared_norms(pieces, {0, pieces.elements()}, values.data(), sum);
  return sum.value();
}

TEST(SquaredNorms, AreFp64InElementOrderInsideABlock) {
  const PieceTable pieces = table();
  const auto values = gradients(pieces.elements(), 3);
  ExactSum expected;
  for (const Block& block : pieces.blocks()) {
    double sum = 0;
    for (std::int64_t i = block.range.lo; i < block.range.hi; ++i) {
      const double value = values[static_cast<std::size_t>(i)];
      sum += value * value;
    }
    expected.add(sum);
  }
  EXPECT_EQ(std::bit_cast<std::uint64_t>(squared_norm(pieces, values)),
            std::bit_cast<std::uint64_t>(expected.value()));
  EXPECT_NEAR(squared_norm(pieces, values), static_cast<double>(pieces.elements()), 1000);
}

TEST(SquaredNorms, CountEachElementOnce) {
  const PieceTable pieces = table();
  const std::vector<float> ones(static_cast<std::size_t>(pieces.elements()), 1.0f);
  EXPECT_EQ(squared_norm(pieces, ones), static_cast<double>(pieces.elements()));
}

RC_GTEST_PROP(SquaredNorms, DoNotDependOnTheShares, (std::uint64_t seed)) {
  const PieceTable pieces = table();
  const auto values = gradients(pieces.elements(), seed);
  const int ranks = *rc::gen::inRange(1, 40);
  ExactSum total;
  for (int rank = 0; rank < ranks; ++rank) {
    const ElementRange range = pieces.share(ranks, rank);
    ExactSum mine;
    add_squared_norms(pieces, range, values.data() + range.lo, mine);
    total.merge(mine);
  }
  RC_ASSERT(std::bit_cast<std::uint64_t>(total.value()) ==
            std::bit_cast<std::uint64_t>(squared_norm(pieces, values)));
}

TEST(SquaredNorms, AnEmptyRangeAddsNothing) {
  const PieceTable pieces = table();
  ExactSum sum;
  add_squared_norms(pieces, {0, 0}, nullptr, sum);
  add_squared_norms(pieces, {pieces.elements(), pieces.elements()}, nullptr, sum);
  EXPECT_EQ(sum.value(), 0);
}

TEST(SquaredNorms, ShowNotANumber) {
  const PieceTable pieces = table();
  auto values = gradients(pieces.elements(), 5);
  values[4000] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isnan(squared_norm(pieces, values)));
}

TEST(SquaredNormsDeathTest, RangesAreWholeBlocks) {
  const PieceTable pieces = table();
  const auto values = gradients(pieces.elements(), 5);
  ExactSum sum;
  EXPECT_DEATH(add_squared_norms(pieces, {1, 2048}, values.data(), sum), "range.lo");
  EXPECT_DEATH(add_squared_norms(pieces, {0, 2047}, values.data(), sum), "range.hi");
}

TEST(ClipFactor, IsTheOneFormula) {
  EXPECT_EQ(clip_factor(2.0, 1.0), 1.0 / (2.0 + 1e-6));
  EXPECT_EQ(clip_factor(0.5, 1.0), 1.0);
  EXPECT_EQ(clip_factor(0.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(1.0, 1.0), 1.0 / (1.0 + 1e-6));  // just below 1
  EXPECT_LT(clip_factor(1.0, 1.0), 1.0);
  EXPECT_EQ(clip_factor(1e30, 0.0), 1.0);  // off
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "parallel/units.h"

#include <gtest/gtest.h>

#include <set>

namespace shardproof {
namespace {

GptShape shape_of(int layers) {
  GptShape shape;
  shape.layers = layers;
  shape.tensor_pieces = 2;
  return shape;
}

std::vector<std::string> names(const std::vector<UnitSpec>& units) {
  std::vector<std::string> out;
  for (const UnitSpec& unit : units) out.push_back(unit.name);
  return out;
}

TEST(Units, AChunkIsOneUnitWhereNothingIsSplit) {
  const auto units = units_of(shape_of(2), {0, 1}, {{0, 2}}, 0);
  ASSERT_EQ(units.size(), 1u);
  EXPECT_EQ(units[0].table.elements(), PieceTable(gpt_pieces(shape_of(2))).elements());
}

TEST(Units, BlocksAreGroupedAndTheEndsStandAlone) {
  EXPECT_EQ(names(units_of(shape_of(5), {0, 1}, {{0, 5}}, 2)),
            (std::vector<std::string>{"embedding", "blocks 0-1", "blocks 2-3", "block 4", "head"}));
  EXPECT_EQ(names(units_of(shape_of(12), {0, 1}, {{2, 4}, {10, 12}}, 1)),
            (std::vector<std::string>{"block 2", "block 3", "block 10", "block 11", "head"}));
}

TEST(Units, OverAllChunksAndTensorRanksEveryPieceAppears) {
  const GptShape shape = shape_of(11);  // names that do not sort by number
  for (const int unit_layers : {0, 1, 3}) {
    std::multiset<std::pair<std::string, int>> seen;
    for (const int v : {0, 1}) {
      for (const LayerRange chunk : {LayerRange{0, 4}, {4, 5}, {5, 11}}) {
        for (const UnitSpec& unit : units_of(shape, {v}, {chunk}, unit_layers)) {
          for (const PieceSpec& piece : unit.table.pieces()) {
            if (piece.pieces > 1) EXPECT_EQ(piece.piece, v);
            if (piece.pieces > 1 || v == 0) seen.emplace(piece.name, piece.piece);
          }
        }
      }
    }
    std::multiset<std::pair<std::string, int>> all;
    for (const PieceSpec& piece : gpt_pieces(shape)) all.emplace(piece.name, piece.piece);
    EXPECT_EQ(seen, all) << unit_layers;
  }
}

TEST(Units, ATiedWeightHasAUnitForEachUse) {
  GptShape shape = shape_of(2);
  shape.tied = true;
  const auto one = units_of(shape, {0, 1}, {{0, 2}}, 0);
  EXPECT_EQ(names(one), (std::vector<std::string>{"tied embedding", "chunk 0", "tied head"}));
  EXPECT_EQ(one[0].use, 0);
  EXPECT_EQ(one[2].use, 1);
  EXPECT_EQ(one[2].table.elements(), one[0].table.elements());
  const auto last_stage = units_of(shape, {1}, {{1, 2}}, 1);
  EXPECT_EQ(names(last_stage), (std::vector<std::string>{"block 1", "head", "tied head"}));
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "base/piece.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <numeric>

namespace shardproof {
namespace {

TEST(ElementCount, ScalarsZeroExtentsAndTheLargest) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({3, 4, 5}), 60);
  EXPECT_EQ(element_count({3, 0, 5}), 0);
  EXPECT_EQ(element_count({1ll << 31, 1ll << 31}), 1ll << 62);
}

TEST(ElementCountDeathTest, OverflowAndNegativeExtentsAreBugs) {
  EXPECT_DEATH(element_count({1ll << 32, 1ll << 31}), "overflows");
  EXPECT_DEATH(element_count({2, -1}), "0 <= extent");
}

RC_GTEST_PROP(ShareBound, SharesTileAndAreBalanced, ()) {
  const auto items = *rc::gen::inRange<std::int64_t>(0, 1ll << 50);
  const int parts = *rc::gen::inRange(1, 1000);
  RC_ASSERT(share_bound(items, parts, 0) == 0);
  RC_ASSERT(share_bound(items, parts, parts) == items);
  const int part = *rc::gen::inRange(0, parts);
  const auto size = share_bound(items, parts, part + 1) - share_bound(items, parts, part);
  RC_ASSERT(size == items / parts || size == (items + parts - 1) / parts);
}

TEST(ShareBound, DoesNotOverflow) {
  const auto most = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(share_bound(most, 2, 1), most / 2);
  EXPECT_EQ(share_bound(most, 1000, 1000), most);
}

TEST(ShareBoundDeathTest, BadPartsAreBugs) {
  EXPECT_DEATH(share_bound(4, 0, 0), "0 of 0");
  EXPECT_DEATH(share_bound(4, 2, 3), "3 of 2");
  EXPECT_DEATH(share_bound(4, 2, -1), "-1 of 2");
  EXPECT_DEATH(share_bound(-1, 2, 1), "0 <= items");
}

TEST(Cut, WholeAndAlongADim) {
  const auto whole = cut("w", {4, 6}, 1, 1);
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].dim, -1);
  EXPECT_EQ(whole[0].box, (Box{{0, 0}, {4, 6}}));
  EXPECT_EQ(cut("w", {4, 6}, -1, 1)[0].box, whole[0].box);
  EXPECT_EQ(cut("scalar", {}, -1, 1)[0].elements(), 1);

  const auto halves = cut("w", {4, 7}, 1, 2);
  ASSERT_EQ(halves.size(), 2u);
  EXPECT_EQ(halves[0].box, (Box{{0, 0}, {4, 3}}));
  EXPECT_EQ(halves[1].box, (Box{{0, 3}, {4, 4}}));
  EXPECT_EQ(halves[1].piece, 1);
  EXPECT_EQ(halves[1].pieces, 2);
  EXPECT_EQ(halves[1].dim, 1);
  EXPECT_EQ(halves[1].global_shape, (Shape{4, 7}));
}

TEST(Cut, MorePiecesThanRowsLeavesEmptyOnes) {
  const auto pieces = cut("w", {1, 5}, 0, 2);
  EXPECT_EQ(pieces[0].elements(), 0);
  EXPECT_EQ(pieces[0].blocks(), 0);
  EXPECT_EQ(pieces[1].elements(), 5);
}

TEST(CutDeathTest, ADimOutOfRangeIsABug) {
  EXPECT_DEATH(cut("w", {4}, 1, 2), "w: dim 1 of 1");
  EXPECT_DEATH(cut("w", {4}, -1, 2), "w: dim -1 of 1");
  EXPECT_DEATH(cut("w", {4}, 0, 0), "1 <= pieces");
}

TEST(PieceSpec, TheLastBlockIsShort) {
  EXPECT_EQ(cut("w", {1024}, -1, 1)[0].blocks(), 1);
  EXPECT_EQ(cut("w", {1025}, -1, 1)[0].blocks(), 2);
  EXPECT_EQ(cut("w", {0}, -1, 1)[0].blocks(), 0);
}

// Some parameters, each cut into pieces, in no particular order.
std::vector<PieceSpec> draw_pieces() {
  std::vector<PieceSpec> pieces;
  const int parameters = *rc::gen::inRange(0, 6);
  for (int i = 0; i < parameters; ++i) {
    const Shape shape = {*rc::gen::inRange<std::int64_t>(1, 80),
                         *rc::gen::inRange<std::int64_t>(1, 80)};
    const auto more = cut("p" + std::to_string((i * 7) % 11), shape, *rc::gen::inRange(0, 2),
                          *rc::gen::inRange(1, 5));
    pieces.insert(pieces.begin(), more.begin(), more.end());
  }
  return pieces;
}

RC_GTEST_PROP(PieceTable, PiecesAndBlocksTileTheArena, ()) {
  const PieceTable table(draw_pieces());
  std::int64_t at = 0;
  for (std::size_t i = 0; i < table.pieces().size(); ++i) {
    const PieceSpec& piece = table.pieces()[i];
    RC_ASSERT(table.index(piece.name, piece.piece) == static_cast<int>(i));
    RC_ASSERT(table.range(static_cast<int>(i)) == (ElementRange{at, at + piece.elements()}));
    at += piece.elements();
    if (i > 0) {
      const PieceSpec& before = table.pieces()[i - 1];
      RC_ASSERT(before.name < piece.name ||
                (before.name == piece.name && before.piece < piece.piece));
    }
  }
  RC_ASSERT(table.elements() == at);
  at = 0;
  for (const Block& block : table.blocks()) {
    const ElementRange piece = table.range(block.piece_index);
    RC_ASSERT(block.range.lo == at);
    RC_ASSERT(block.range.lo == piece.lo + block.block * block_elements);
    RC_ASSERT(block.range.size() > 0);
    RC_ASSERT(block.range.size() == block_elements || block.range.hi == piece.hi);
    RC_ASSERT(block.range.size() <= block_elements);
    at = block.range.hi;
  }
  RC_ASSERT(at == table.elements());
}

RC_GTEST_PROP(PieceTable, SharesTileTheArenaOnBlockBounds, ()) {
  const PieceTable table(draw_pieces());
  const int ranks = *rc::gen::inRange(1, 9);
  const auto counts = table.share_counts(ranks);
  RC_ASSERT(counts.size() == static_cast<std::size_t>(ranks));
  std::int64_t at = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const ElementRange share = table.share(ranks, rank);
    RC_ASSERT(share.lo == at);
    RC_ASSERT(share.size() == counts[rank]);
    const auto exact = table.elements() / ranks;
    RC_ASSERT(share.size() <= exact + block_elements);
    RC_ASSERT(share.size() >= exact - block_elements);
    bool on_bound = share.lo == table.elements();
    for (const Block& block : table.blocks()) on_bound = on_bound || block.range.lo == share.lo;
    RC_ASSERT(on_bound);
    at = share.hi;
  }
  RC_ASSERT(at == table.elements());
}

TEST(PieceTable, EmptyTables) {
  EXPECT_EQ(PieceTable().elements(), 0);
  EXPECT_EQ(PieceTable(std::vector<PieceSpec>{}).elements(), 0);
  EXPECT_EQ(PieceTable().share(3, 1), (ElementRange{0, 0}));
  EXPECT_EQ(PieceTable().share_counts(2), (std::vector<std::int64_t>{0, 0}));
}

TEST(PieceTable, MoreRanksThanBlocksLeavesEmptyShares) {
  const PieceTable table(cut("w", {2000}, -1, 1));
  EXPECT_EQ(table.share_counts(4), (std::vector<std::int64_t>{1024, 0, 976, 0}));
}

TEST(PieceTable, SharesAreBalancedByElementsNotByBlocks) {
  auto pieces = cut("large", {4096}, -1, 1);
  for (int i = 0; i < 8; ++i) {  // eight blocks of one element
    pieces.push_back(cut("tiny" + std::to_string(i), {1}, -1, 1)[0]);
  }
  EXPECT_EQ(PieceTable(pieces).share_counts(2), (std::vector<std::int64_t>{3072, 1032}));
}

TEST(PieceTableDeathTest, MisuseIsABug) {
  auto pieces = cut("w", {8}, 0, 2);
  const PieceTable table(pieces);
  EXPECT_DEATH(table.index("w", 2), "no w piece 2");
  EXPECT_DEATH(table.index("v", 0), "no v piece 0");
  EXPECT_DEATH(table.range(2), "piece index 2");
  EXPECT_DEATH(table.share(2, 2), "3 of 2");
  pieces.push_back(pieces[1]);
  EXPECT_DEATH(PieceTable{pieces}, "w piece 1 twice");
}

}  // namespace
}  // namespace shardproof

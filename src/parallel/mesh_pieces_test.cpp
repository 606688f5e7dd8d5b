// ctest: unit
#include "parallel/mesh_pieces.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <numeric>

namespace shardproof {
namespace {

using Lists = std::vector<std::vector<int>>;

TEST(MeshPieces, ContiguousAndFolded) {
  EXPECT_EQ(tensor_owners(parse_layout("tp3"), 4).owned, (Lists{{0}, {1}, {2, 3}}));
  EXPECT_EQ(sequence_owners(parse_layout("cp2"), 4).owned, (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(sequence_owners(parse_layout("cp2-zigzag"), 4).owned, (Lists{{0, 3}, {1, 2}}));
  EXPECT_EQ(sequence_owners(parse_layout("cp2-zigzag"), 8).owned,
            (Lists{{0, 1, 6, 7}, {2, 3, 4, 5}}));
}

TEST(MeshPieces, UlyssesDealsTheHeads) {
  EXPECT_EQ(sequence_owners(parse_layout("cp2-ulysses"), 4).owned, (Lists{{0, 1}, {2, 3}}));
  EXPECT_EQ(attention_tensor_pieces(parse_layout("tp2.cp2-ulysses"), 4, 1), (Lists{{2}, {3}}));
  EXPECT_EQ(attention_tensor_pieces(parse_layout("cp3-ulysses"), 4, 0), (Lists{{0}, {1}, {2, 3}}));
  EXPECT_EQ(attention_tensor_pieces(parse_layout("tp2.cp2"), 4, 1), (Lists{{2, 3}, {2, 3}}));
}

TEST(MeshPieces, SequenceParallelismDealsTheResidual) {
  EXPECT_EQ(residual_pieces(parse_layout("tp2.cp2"), 4, 1), (Lists{{2, 3}, {2, 3}}));
  EXPECT_EQ(residual_pieces(parse_layout("tp2.sp.cp2"), 4, 1), (Lists{{2}, {3}}));
  EXPECT_EQ(residual_pieces(parse_layout("tp2.sp.cp2-zigzag"), 4, 0), (Lists{{0}, {3}}));
  EXPECT_EQ(residual_owners(parse_layout("tp2.sp.cp2-zigzag"), 4).owned,
            (Lists{{0}, {3}, {1}, {2}}));
}

RC_GTEST_PROP(MeshPieces, EveryPieceHasOneOwner, ()) {
  Layout layout;
  layout.tp = *rc::gen::inRange(1, 4);
  layout.cp = *rc::gen::inRange(1, 4);
  layout.context_kind = *rc::gen::element(std::string("ring"), std::string("zigzag"));
  layout.sequence_parallel = layout.tp > 1 && *rc::gen::arbitrary<bool>();
  const int pieces = *rc::gen::inRange(2 * layout.cp, 20);
  std::vector<int> wanted(static_cast<std::size_t>(pieces));
  std::iota(wanted.begin(), wanted.end(), 0);
  const auto all = [](const Lists& lists) {
    std::vector<int> out;
    for (const auto& list : lists) {
      RC_ASSERT(std::ranges::is_sorted(list));
      out.insert(out.end(), list.begin(), list.end());
    }
    std::ranges::sort(out);
    return out;
  };
  RC_ASSERT(all(sequence_owners(layout, pieces).owned) == wanted);
  RC_ASSERT(all(tensor_owners(layout, pieces).owned) == wanted);
  if (layout.sequence_parallel) RC_ASSERT(all(residual_owners(layout, pieces).owned) == wanted);
}

}  // namespace
}  // namespace shardproof

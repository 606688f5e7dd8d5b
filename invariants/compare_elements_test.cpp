// ctest: invariant
// Tensors larger than a window, cut in every way: the first difference is found where it is.
#include "invariants/compare_elements.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/temp_folder.h"
#include "invariants/tensor_distance.h"
#include "invariants/tensor_windows.h"
#include "trace/tensor_file.h"

namespace shardproof {
namespace {

constexpr std::int64_t rows = 300, middle = 50, columns = 40;
const Shape shape = {rows, middle, columns};

// A tensor over some ranks, cut along a dim (-1: all of it on each).
struct Side {
  int ranks = 1;
  int dim = -1;
  std::int64_t rank_to_change = -1;  // what this rank writes of `element` is off by `change`
  std::int64_t element = 0;
  float change = 0;
  int rank_to_hide = -1;
};

class CompareElements : public ::testing::Test {
 protected:
  static_assert(rows * middle * columns > 2 * window_elements);

  std::vector<HeldBytes> write(const Side& side) {
    std::vector<HeldBytes> out;
    for (int rank = 0; rank < side.ranks; ++rank) {
      if (rank == side.rank_to_hide) continue;
      Box box{Shape(3, 0), shape};
      if (side.dim >= 0) {
        const auto d = static_cast<std::size_t>(side.dim);
        box.offsets[d] = share_bound(shape[d], side.ranks, rank);
        box.shape[d] = share_bound(shape[d], side.ranks, rank + 1) - box.offsets[d];
      }
      TensorView view;
      view.place = {"w", shape, 0, box, false, {}};
      std::vector<float> values;
      for_each_stretch(view.place, [&](std::int64_t global, std::int64_t, std::int64_t n) {
        for (std::int64_t i = global; i < global + n; ++i) {
          const bool off = rank == side.rank_to_change && i == side.element;
          values.push_back(static_cast<float>(i % 1009) + 1 + (off ? side.change : 0));
        }
      });
      view.data = values.data();
      const std::string path = folder_.file(std::to_string(next_++));
      write_tensor_file(path, {{view}});
      const TensorFile file = TensorFile::open(path);
      out.push_back({rank, file, file.entries().front()});
    }
    return out;
  }
  static TensorComparison compare(const std::vector<HeldBytes>& expected,
                                  const std::vector<HeldBytes>& found) {
    TensorComparison out;
    compare_elements(expected, found, {}, out);
    return out;
  }

  const std::int64_t last_ = rows * middle * columns - 1;
  TempFolder folder_;
  int next_ = 0;
};

TEST_F(CompareElements, EveryCutIsEqualToEveryOther) {
  std::vector<std::vector<HeldBytes>> sides = {write({1, -1}), write({3, -1}), write({4, 0}),
                                               write({3, 1}), write({7, 2})};
  for (const auto& left : sides) {
    for (const auto& right : sides) {
      const TensorComparison same = compare(left, right);
      EXPECT_FALSE(same.first) << same.first->print();
      EXPECT_GE(same.compared, last_ + 1);
    }
    EXPECT_FALSE(find_unequal_copy(left, {}));
  }
}

TEST_F(CompareElements, TheElementThatDiffersIsNamedInEveryWindow) {
  const auto whole = write({1, -1});
  for (const int dim : {-1, 0, 1, 2}) {
    for (const std::int64_t at :
         {std::int64_t{0}, window_elements - 1, window_elements, 2 * window_elements + 77, last_}) {
      Side side{4, dim, 0, at, 1};
      const Shape index = index_of(shape, at);
      if (dim >= 0) {
        const auto d = static_cast<std::size_t>(dim);
        while (share_bound(shape[d], 4, static_cast<int>(side.rank_to_change) + 1) <= index[d]) {
          ++side.rank_to_change;
        }
      }
      const TensorComparison found = compare(whole, write(side));
      ASSERT_TRUE(found.first) << dim << " " << at;
      EXPECT_EQ(found.first->index, index);
      EXPECT_EQ(found.first->rank, side.rank_to_change);
      EXPECT_EQ(found.first->left_ranks, (std::vector<int>{0}));
      EXPECT_EQ(found.first->right_ranks.size(), dim < 0 ? 4u : 1u);
      EXPECT_EQ(found.first->right,
                element_hex(Dtype::f32,
                            reinterpret_cast<const std::byte*>(
                                std::vector<float>{static_cast<float>(at % 1009) + 2}.data())));
      EXPECT_GT(found.first->times, 1000);
    }
  }
}

TEST_F(CompareElements, AMissingShardIsNamedByItsFirstElement) {
  const TensorComparison found = compare(write({1, -1}), write({4, 1, -1, 0, 0, 2}));
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->index, (Shape{0, 25, 0}));
  EXPECT_EQ(found.first->right, "nothing");
  EXPECT_TRUE(found.first->right_ranks.empty());
  const TensorComparison other = compare(write({4, 2}), write({1, -1, 0, last_, 0}));
  EXPECT_FALSE(other.first);
  EXPECT_THROW(compare(write({4, 1, -1, 0, 0, 2}), write({1, -1})), Error) << "expected has a hole";
}

// Each rank against its own copy: a side whose copies differ may still be reproducible.
TEST_F(CompareElements, ARankIsComparedWithItsOwnCopy) {
  const Side odd{3, -1, 2, window_elements + 5, 1};
  EXPECT_FALSE(compare(write(odd), write(odd)).first);
  const auto copies = write(odd);
  const auto unequal = find_unequal_copy(copies, {});
  ASSERT_TRUE(unequal);
  EXPECT_EQ(unequal->rank, 2);
  EXPECT_EQ(unequal->left_ranks, (std::vector<int>{0}));
  EXPECT_EQ(unequal->index, index_of(shape, window_elements + 5));
}

TEST_F(CompareElements, DistancesAreOfTheWorstCopyInAnyWindow) {
  const auto truth = write({1, -1});
  const Side far{2, -1, 1, 2 * window_elements + 3, -0.5};
  const auto found = write(far), cut = write({5, 2});
  const std::vector<HeldBytes>* sides[] = {&found, &cut};
  const Distances distances = distances_from(truth, sides);
  EXPECT_EQ(distances.norm, norm_of(truth));
  EXPECT_GT(distances.norm, 0);
  EXPECT_EQ(distances.sides[0].norm, 0.5);
  EXPECT_EQ(distances.sides[0].farthest, far.element);
  EXPECT_EQ(distances.sides[0].rank, 1);
  EXPECT_EQ(distances.sides[0].expected - distances.sides[0].found, 0.5);
  EXPECT_EQ(distances.sides[1].norm, 0);
  EXPECT_EQ(distances.sides[1].farthest, -1);
  Side nan = far;
  nan.change = std::numeric_limits<float>::quiet_NaN();
  const auto broken = write(nan), holed = write({4, 0, -1, 0, 0, 3});
  const std::vector<HeldBytes>* bad[] = {&broken, &holed};
  const Distances worse = distances_from(truth, bad);
  EXPECT_TRUE(std::isinf(worse.sides[0].norm));
  EXPECT_EQ(worse.sides[0].found_bits, "nan");
  EXPECT_NE(worse.sides[1].problem, "");
  EXPECT_THROW(distances_from(holed, sides), Error);
}

TEST(RoundingsApart, CountsUnitsOfTheDtype) {
  EXPECT_EQ(roundings_apart(Dtype::f32, 1, 1 + 0x1p-24 * 8), 8 / (1 + 0x1p-24 * 8));
  EXPECT_EQ(roundings_apart(Dtype::bf16, 0, 1), 512);
  EXPECT_EQ(roundings_apart(Dtype::f64, -1, 1), 0x1p54);
  EXPECT_EQ(roundings_apart(Dtype::f32, 0, 0), 0);
  EXPECT_EQ(roundings_apart(Dtype::f32, 1, std::nan("")), 0);
  EXPECT_EQ(roundings_apart(Dtype::i32, 1, 2), 0);
}

}  // namespace
}  // namespace shardproof

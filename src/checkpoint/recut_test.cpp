// ctest: comm
// recut: the same parameter in other boxes, element by element.
#include "checkpoint/recut.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <numeric>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::State;

TEST(SharedRuns, OfBoxesSideBySideAndAcross) {
  const Box rows{{0, 0}, {2, 4}}, columns{{0, 2}, {3, 2}}, apart{{2, 0}, {1, 4}};
  EXPECT_EQ(shared_runs(rows, columns), (std::vector<SharedRun>{{2, 0, 2}, {6, 2, 2}}));
  EXPECT_TRUE(shared_runs(rows, apart).empty());
  EXPECT_EQ(shared_runs(Box{}, Box{}), (std::vector<SharedRun>{{0, 0, 1}}));  // scalars
  EXPECT_EQ(shared_runs(Box{{3}, {4}}, Box{{5}, {9}}), (std::vector<SharedRun>{{2, 0, 2}}));
}

// A parameter whose elements are their own row-major index, cut along any dim.
State counted(const Shape& shape, int dim, int pieces) {
  State state(cut("w", shape, dim, pieces), {"param"}, 1);
  for (State::Tensor& tensor : state.tensors()) {
    Box whole{Shape(shape.size(), 0), shape};
    for (const SharedRun& run : shared_runs(whole, tensor.piece.box)) {
      auto* out = reinterpret_cast<float*>(tensor.bytes.data()) + run.to;
      std::iota(out, out + run.count, static_cast<float>(run.from));
    }
  }
  return state;
}

RC_GTEST_PROP(LoadRecut, AnyCutBecomesAnyOther, ()) {
  Shape shape;
  for (int dims = *rc::gen::inRange(1, 4); dims > 0; --dims) {
    shape.push_back(*rc::gen::inRange<std::int64_t>(1, 20));
  }
  const auto any = [&] {
    const int dim = *rc::gen::inRange(0, static_cast<int>(shape.size()));
    const auto most = std::min<std::int64_t>(shape[static_cast<std::size_t>(dim)], 5);
    return counted(shape, dim, *rc::gen::inRange(1, static_cast<int>(most) + 1));
  };
  State written = any(), wanted = any();
  const auto storage = memory_storage();
  testing::write_small(*storage, *rc::gen::inRange(1, 4), "a", written);
  State loaded = wanted;
  loaded.clear();
  load_recut(*storage, read_manifest(*storage, "a"), loaded.all());
  RC_ASSERT(loaded == wanted);
}

TEST(LoadRecut, AnotherShapeOrNameIsRefused) {
  const auto storage = memory_storage();
  State state = counted({6, 4}, 0, 2);
  testing::write_small(*storage, 1, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  State other = counted({4, 6}, 1, 2);
  Error error = error_of([&] { load_recut(*storage, manifest, other.all()); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_TRUE(contains(error.what(), "expected F32 [4,6], found F32 [6,4]")) << error.what();
  State unknown(cut("v", {2}, -1, 1), {"param"}, 1);
  error = error_of([&] { load_recut(*storage, manifest, unknown.all()); });
  EXPECT_TRUE(contains(error.what(), "v/param")) << error.what();
}

}  // namespace
}  // namespace shardproof

// ctest: comm
// diff: the first differing element of each piece with both bit patterns, whichever layout wrote.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::small_state;
using testing::State;

std::vector<StateDifference> diff(Storage& a, const std::string& left, Storage& b,
                                  const std::string& right) {
  return diff_checkpoints(a, read_manifest(a, left), b, read_manifest(b, right));
}

TEST(Diff, TheSameStateFromOtherLayoutsAndStoragesIsEqual) {
  const auto a = memory_storage();
  const auto b = memory_storage();
  State state = small_state(1);
  testing::write_small(*a, 1, "x", state);
  testing::write_small(*b, 5, "y", state);
  EXPECT_TRUE(diff(*a, "x", *b, "y").empty());
}

RC_GTEST_PROP(Diff, FindsTheFirstDifferingElement, ()) {
  State state = small_state(1);
  State changed = state;
  const auto tensor = *rc::gen::inRange<std::size_t>(0, state.tensors().size());
  auto& bytes = changed.tensors()[tensor].bytes;
  const auto elements = static_cast<std::int64_t>(bytes.size() / 4);
  const auto first = *rc::gen::inRange<std::int64_t>(0, elements);
  const auto later = *rc::gen::inRange<std::int64_t>(first, elements);
  std::uint32_t before = 0;
  std::memcpy(&before, &bytes[static_cast<std::size_t>(first) * 4], 4);
  bytes[static_cast<std::size_t>(later) * 4 + 1] ^= std::byte{0x10};
  if (later != first) bytes[static_cast<std::size_t>(first) * 4 + 1] ^= std::byte{0x10};
  const auto storage = memory_storage();
  testing::write_small(*storage, *rc::gen::inRange(1, 5), "x", state);
  testing::write_small(*storage, *rc::gen::inRange(1, 5), "y", changed);
  const auto found = diff(*storage, "x", *storage, "y");
  RC_ASSERT(found.size() == 1u);
  const State::Tensor& where = state.tensors()[tensor];
  RC_ASSERT(found[0].entry ==
            where.piece.name + "/" + where.what + " piece " + std::to_string(where.piece.piece));
  RC_ASSERT(found[0].element == first);
  char text[9];
  std::snprintf(text, sizeof text, "%08x", before);
  RC_ASSERT(found[0].left == text);
  std::snprintf(text, sizeof text, "%08x", before ^ 0x1000u);
  RC_ASSERT(found[0].right == text);
}

TEST(Diff, PiecesOfOneSideAndOtherTensorsAreNamed) {
  const auto storage = memory_storage();
  State left(cut("a", {10}, -1, 1), {"param", "exp_avg"}, 1);
  State right(cut("a", {10}, -1, 1), {"param", "master"}, 1);
  State other(cut("a", {11}, -1, 1), {"param", "exp_avg"}, 1);
  testing::write_small(*storage, 1, "left", left);
  testing::write_small(*storage, 1, "right", right);
  testing::write_small(*storage, 1, "other", other);
  const auto found = diff(*storage, "left", *storage, "right");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].entry, "a/exp_avg piece 0");
  EXPECT_EQ(found[0].element, -1);
  EXPECT_EQ(found[0].left, "present");
  EXPECT_EQ(found[0].right, "absent");
  EXPECT_EQ(found[1].entry, "a/master piece 0");
  EXPECT_EQ(found[1].left, "absent");
  const auto shapes = diff(*storage, "left", *storage, "other");
  ASSERT_EQ(shapes.size(), 2u);
  EXPECT_EQ(shapes[0].element, -1);
  EXPECT_TRUE(contains(shapes[0].left, "[10]") && contains(shapes[0].right, "[11]"));
}

TEST(Diff, ADamagedBlockIsAnErrorAndNotADifference) {
  const auto storage = memory_storage();
  State left = small_state(1);
  State right = small_state(2);
  testing::write_small(*storage, 1, "x", left);
  testing::write_small(*storage, 1, "y", right);
  const std::string file = read_manifest(*storage, "y").files[0].file;
  auto bytes = testing::read_file(*storage, file);
  for (std::size_t i = bytes.size() / 2; i < bytes.size(); i += 64) bytes[i] ^= std::byte{1};
  testing::replace_file(*storage, file, bytes);
  EXPECT_EQ(error_of([&] { diff(*storage, "x", *storage, "y"); }).kind(), ErrorKind::corrupt);
}

}  // namespace
}  // namespace shardproof

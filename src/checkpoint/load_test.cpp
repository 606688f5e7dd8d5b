// ctest: comm
// load: lists by step, reads exactly the blocks asked for, refuses other tensors.
#include "checkpoint/load.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::small_facts;
using testing::small_state;
using testing::State;

void put(Storage& storage, const std::string& path, const std::string& text) {
  const auto file = storage.create(path);
  file->write(std::as_bytes(std::span(text)));
  file->close();
}

TEST(ListCheckpoints, OldestStepFirstAndNothingElse) {
  const auto storage = memory_storage();
  EXPECT_TRUE(list_checkpoints(*storage).empty());
  State state = small_state(1);
  testing::write_small(*storage, 1, "zero", state, small_facts(0));
  testing::write_small(*storage, 1, "step-00000100", state, small_facts(100));
  testing::write_small(*storage, 1, "a", state, small_facts(20));
  put(*storage, "b.manifest-0123.tmp", "draft");  // leftovers
  storage->make_directory("c.shards-0123");
  put(*storage, ".hidden.manifest.json", "no id");
  put(*storage, "notes.txt", "x");
  EXPECT_EQ(list_checkpoints(*storage), (std::vector<std::string>{"zero", "a", "step-00000100"}));
}

TEST(ListCheckpoints, UnreadableOnesKeepTheirPlaceOrStandLast) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 1, "step-00000010", state, small_facts(10));
  testing::write_small(*storage, 1, "step-00000030", state, small_facts(30));
  put(*storage, "step-00000020.manifest.json", "damaged");
  put(*storage, "other.manifest.json", "damaged");
  EXPECT_EQ(list_checkpoints(*storage),
            (std::vector<std::string>{"step-00000010", "step-00000020", "step-00000030", "other"}));
}

TEST(ReadManifest, NamesWhatIsMissingOrTooLarge) {
  const auto storage = memory_storage();
  EXPECT_EQ(error_of([&] { read_manifest(*storage, "a"); }).kind(), ErrorKind::bad_input);
  EXPECT_EQ(error_of([&] { read_manifest(*storage, "a/b"); }).kind(), ErrorKind::bad_input);
  put(*storage, "a.manifest.json", "{}");
  const Error error = error_of([&] { read_manifest(*storage, "a"); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.place(), "a.manifest.json");
}

// A sparse file of 2 GiB: refused by its size, not read.
TEST(ReadManifest, AHugeFileIsRefusedUnread) {
  const TempFolder directory;
  const auto storage = posix_storage(directory.path(), false);
  put(*storage, "a.manifest.json", "{}");
  std::filesystem::resize_file(directory.file("a.manifest.json"), std::uintmax_t{2} << 30);
  const Error error = error_of([&] { read_manifest(*storage, "a"); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error.what(), "expected at most")) << error.what();
}

RC_GTEST_PROP(LoadState, AnyBlocksOfAnySharesComeBackExactly, ()) {
  State state = small_state(1);
  const auto storage = memory_storage();
  const auto ranks = *rc::gen::inRange(1, 7);
  testing::write_small(*storage, ranks, "a", state);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, state.blocks());
  const auto end = *rc::gen::inRange<std::int64_t>(begin, state.blocks() + 1);
  State loaded = state;
  loaded.clear();
  load_state(*storage, read_manifest(*storage, "a"), loaded.items<LoadItem>(begin, end));
  State expected = state;
  expected.clear();
  const auto from = state.items<SaveItem>(begin, end);
  const auto to = expected.items<LoadItem>(begin, end);
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::memcpy(to[i].data, from[i].data, static_cast<std::size_t>(to[i].range.size()) * 4);
  }
  RC_ASSERT(loaded == expected);  // these blocks, and no byte beside them
}

TEST(LoadState, OtherTensorsAreRefusedWithExpectedAndFound) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 2, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  const auto refused = [&](const std::function<void(LoadItem&)>& edit) {
    State loaded = state;
    loaded.clear();
    State untouched = loaded;
    std::vector<LoadItem> items = loaded.all();
    edit(items.back());
    const Error error = error_of([&] { load_state(*storage, manifest, items); });
    EXPECT_TRUE(loaded == untouched);  // refused before anything is loaded
    return error;
  };
  EXPECT_EQ(refused([](LoadItem& item) { item.what = "master"; }).kind(), ErrorKind::refused);
  EXPECT_EQ(refused([](LoadItem& item) { item.piece.name = "z"; }).kind(), ErrorKind::refused);
  EXPECT_EQ(refused([](LoadItem& item) { item.piece.piece = 7; }).kind(), ErrorKind::refused);
  Error error = refused([](LoadItem& item) { item.dtype = Dtype::i32; });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_TRUE(contains(error.what(), "I32") && contains(error.what(), "F32")) << error.what();
  error = refused([](LoadItem& item) { item.piece.global_shape = {4, 9}; });
  EXPECT_TRUE(contains(error.what(), "[4,9]") && contains(error.what(), "[3,9]")) << error.what();
  error = refused([](LoadItem& item) { item.piece.pieces = 3; });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  error = refused([](LoadItem& item) { item.piece.box.offsets[1] += 1; });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  error = refused([](LoadItem& item) { item.range = {0, 5}; });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  error = refused([](LoadItem& item) { item.data = nullptr; });
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
}

TEST(LoadState, NothingAskedForNothingRead) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 1, "a", state);
  LoadItem empty{"none", cut("none", {9}, -1, 1)[0], {0, 0}, Dtype::f32, nullptr};
  load_state(*storage, read_manifest(*storage, "a"), {});
  load_state(*storage, read_manifest(*storage, "a"), std::span(&empty, 1));
}

}  // namespace
}  // namespace shardproof

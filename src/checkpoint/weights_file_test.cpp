// ctest: comm
// weights_file: out and in again, whole, by name; nothing half-written.
#include "checkpoint/weights_file.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/recut.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::small_state;
using testing::State;

void import_alone(Storage& in, const std::string& path, Storage& storage, const std::string& id) {
  ThreadWorld world(1);
  import_weights(in, path, storage, *world.communicator(0), id);
}

TEST(WeightsFile, EveryParameterWholeUnderItsOwnName) {
  const auto storage = memory_storage(), out = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 3, "a", state);
  const WeightsFile file = export_weights(*storage, read_manifest(*storage, "a"), *out, "w.st");
  EXPECT_EQ(out->list(""), std::vector<std::string>{"w.st"});
  const SafetensorsHeader header = read_shard_header(*out, "w.st");
  ASSERT_EQ(header.entries.size(), 5u);
  EXPECT_EQ(file.tensors, 5u);
  EXPECT_EQ(file.bytes, out->size("w.st"));
  EXPECT_EQ(header.find("a.weight")->shape, (Shape{40, 70}));
  EXPECT_EQ(header.find("c.scale")->shape, Shape{});
  // Cut along dim 0: the pieces lie end to end.
  const SafetensorsEntry& weight = *header.find("a.weight");
  const auto bytes = testing::read_file(*out, "w.st");
  std::vector<std::byte> expected;
  for (const State::Tensor& tensor : state.tensors()) {
    if (tensor.what != "param" || tensor.piece.name != "a.weight") continue;
    expected.insert(expected.end(), tensor.bytes.begin(), tensor.bytes.end());
  }
  ASSERT_EQ(expected.size(), weight.end - weight.begin);
  EXPECT_TRUE(
      std::equal(expected.begin(), expected.end(),
                 bytes.begin() + static_cast<std::ptrdiff_t>(header.data_begin + weight.begin)));
}

TEST(WeightsFile, ComesBackAsACheckpointOfWeightsAlone) {
  const auto storage = memory_storage(), other = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 2, "a", state);
  EXPECT_FALSE(weights_alone(read_manifest(*storage, "a")));
  const WeightsFile file = export_weights(*storage, read_manifest(*storage, "a"), *storage, "w.st");
  import_alone(*storage, "w.st", *other, "weights");
  EXPECT_TRUE(verify_checkpoint(*other, "weights").empty());
  const Manifest manifest = read_manifest(*other, "weights");
  EXPECT_TRUE(weights_alone(manifest));
  EXPECT_EQ(manifest.facts.origin.at("sha256"), file.sha256.hex());
  State weights(testing::small_pieces(), {"param"}, 1);  // what small_state has of them
  State loaded = weights;
  loaded.clear();
  load_recut(*other, manifest, loaded.all());
  EXPECT_TRUE(loaded == weights);
}

TEST(WeightsFile, OverwritesNothingAndLeavesNothingHalfWritten) {
  const auto storage = memory_storage();
  const std::shared_ptr<Storage> out = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 1, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  export_weights(*storage, manifest, *out, "w.st");
  const auto before = testing::read_file(*out, "w.st");
  const Error error = error_of([&] { export_weights(*storage, manifest, *out, "w.st"); });
  EXPECT_EQ(error.kind(), ErrorKind::conflict);
  EXPECT_EQ(testing::read_file(*out, "w.st"), before);
  for (int at = 1; at < 6; ++at) {
    const std::shared_ptr<Storage> empty = memory_storage();
    testing::FailingStorage failing(empty, at, testing::FailingStorage::When::torn, false);
    error_of([&] { export_weights(*storage, manifest, failing, "w.st"); });
    EXPECT_TRUE(empty->list("").empty()) << failing.log().back();
  }
}

TEST(WeightsFile, OtherDtypesAreRefusedByName) {
  const auto storage = memory_storage();
  State halves(cut("h", {8}, -1, 1), {"param"}, 1, Dtype::f16);
  testing::write_small(*storage, 1, "a", halves);
  export_weights(*storage, read_manifest(*storage, "a"), *storage, "w.st");
  const Error error = error_of([&] { import_alone(*storage, "w.st", *storage, "b"); });
  EXPECT_EQ(error.kind(), ErrorKind::refused);
  EXPECT_TRUE(contains(error.what(), "'h'") && contains(error.what(), "F16")) << error.what();
  EXPECT_EQ(list_checkpoints(*storage), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace shardproof

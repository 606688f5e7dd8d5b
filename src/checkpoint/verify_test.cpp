// ctest: comm timeout=120
// verify and load: no changed byte, cut, addition or exchange of a checkpoint goes unseen, and none
// is ever loaded.
#include "checkpoint/verify.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::read_file;
using testing::replace_file;
using testing::run_world;
using testing::small_state;
using testing::State;

// 1,030 bytes in two blocks and a small matrix, on two ranks: every byte of it can be tried.
State tiny_state() {
  std::vector<PieceSpec> pieces = cut("a", {1030}, -1, 1);
  pieces.push_back(cut("b", {2, 3}, -1, 1)[0]);
  return State(pieces, {"param"}, 4, Dtype::u8);
}

std::vector<std::string> files_of(Storage& storage, const std::string& id) {
  std::vector<std::string> files{manifest_path(id)};
  for (const ShardFileRef& file : read_manifest(storage, id).files) files.push_back(file.file);
  return files;
}

// Loading everything either fails or gives what was saved.
void expect_never_loaded(Storage& storage, const std::string& id, const State& saved) {
  State loaded = saved;
  loaded.clear();
  try {
    load_state(storage, read_manifest(storage, id), loaded.all());
  } catch (const Error&) {
    return;
  }
  EXPECT_TRUE(loaded == saved);
}

// What verify says after `bytes` take the place of `file`; and that ranks refuse it together.
std::vector<Damage> after_replacing(Storage& storage, const std::string& file,
                                    const std::vector<std::byte>& bytes, const State& saved) {
  const auto before = read_file(storage, file);
  replace_file(storage, file, bytes);
  const std::vector<Damage> damages = verify_checkpoint(storage, "a");
  expect_never_loaded(storage, "a", saved);
  replace_file(storage, file, before);
  return damages;
}

TEST(Verify, EveryFlippedByteIsFound) {
  const auto storage = memory_storage();
  State state = tiny_state();
  testing::write_small(*storage, 2, "a", state);
  ASSERT_TRUE(verify_checkpoint(*storage, "a").empty());
  const Manifest manifest = read_manifest(*storage, "a");
  std::size_t tried = 0;
  for (const std::string& file : files_of(*storage, "a")) {
    const auto whole = read_file(*storage, file);
    for (std::size_t i = 0; i < whole.size(); ++i, ++tried) {
      auto bytes = whole;
      bytes[i] ^= static_cast<std::byte>(1u << (i % 8));
      const auto damages = after_replacing(*storage, file, bytes, state);
      ASSERT_FALSE(damages.empty()) << file << " byte " << i;
      // A byte of a tensor is found by its block, named with entry and range.
      for (const ManifestEntry& entry : manifest.entries) {
        if (entry.file != file || i < entry.begin || i >= entry.end) continue;
        EXPECT_TRUE(std::any_of(damages.begin(), damages.end(), [&](const Damage& damage) {
          return contains(damage.where, file + ": " + entry.label() + ", bytes [");
        })) << damages[0].where;
        EXPECT_EQ(damages.size(), 2u);  // the block, and the file as a whole
      }
    }
  }
  EXPECT_GT(tried, 1036u);
  EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
}

// A shard says both sizes; a manifest that it is cut off or appended to.
void expect_size(const std::string& file, const std::vector<Damage>& damages, std::size_t expected,
                 std::size_t found) {
  ASSERT_FALSE(damages.empty()) << file << ": " << found << " bytes of " << expected;
  if (file == "a.manifest.json") return;
  EXPECT_EQ(damages[0].where, file);
  EXPECT_EQ(damages[0].expected, std::to_string(expected) + " bytes");
  EXPECT_EQ(damages[0].found, std::to_string(found) + " bytes");
}

TEST(Verify, EveryTruncationAndAnyAdditionIsFound) {
  const auto storage = memory_storage();
  State state = tiny_state();
  testing::write_small(*storage, 2, "a", state);
  for (const std::string& file : files_of(*storage, "a")) {
    const auto whole = read_file(*storage, file);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::vector<std::byte> bytes(whole.begin(),
                                         whole.begin() + static_cast<std::ptrdiff_t>(size));
      expect_size(file, after_replacing(*storage, file, bytes, state), whole.size(), size);
    }
    for (const std::size_t more : {1, 8, 5000}) {
      auto bytes = whole;
      bytes.resize(whole.size() + more);
      expect_size(file, after_replacing(*storage, file, bytes, state), whole.size(), bytes.size());
    }
  }
}

TEST(Verify, MissingFilesAreDamageAndAMissingCheckpointIsNot) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 2, "a", state);
  const std::string file = read_manifest(*storage, "a").files[1].file;
  storage->remove(file);
  const auto damages = verify_checkpoint(*storage, "a");
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_EQ(damages[0].where, file);
  EXPECT_TRUE(contains(damages[0].found, "No such file")) << damages[0].found;
  expect_never_loaded(*storage, "a", state);
  EXPECT_EQ(error_of([&] { verify_checkpoint(*storage, "b"); }).kind(), ErrorKind::bad_input);
  EXPECT_EQ(error_of([&] { verify_checkpoint(*storage, "../a"); }).kind(), ErrorKind::bad_input);
}

TEST(Verify, ExchangedShardsAreFound) {
  const auto storage = memory_storage();
  State state = small_state(1);
  State other = small_state(2);
  testing::write_small(*storage, 2, "a", state);
  testing::write_small(*storage, 2, "b", other);
  const Manifest a = read_manifest(*storage, "a");
  const Manifest b = read_manifest(*storage, "b");
  const auto swap_files = [&](const std::string& x, const std::string& y) {
    const auto bytes = read_file(*storage, x);
    replace_file(*storage, x, read_file(*storage, y));
    replace_file(*storage, y, bytes);
  };
  // Two ranks' shards, and one rank's shards of two checkpoints with the same shapes.
  for (const std::string& other_file : {a.files[1].file, b.files[0].file}) {
    swap_files(a.files[0].file, other_file);
    EXPECT_FALSE(verify_checkpoint(*storage, "a").empty());
    expect_never_loaded(*storage, "a", state);
    swap_files(a.files[0].file, other_file);
  }
  EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
  // Another checkpoint's whole manifest under this name.
  replace_file(*storage, manifest_path("a"), read_file(*storage, manifest_path("b")));
  const auto damages = verify_checkpoint(*storage, "a");
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_TRUE(contains(damages[0].found, "is the manifest of 'b'")) << damages[0].found;
}

TEST(Verify, AdjacentDamagedBlocksAreOneDamage) {
  const auto storage = memory_storage();
  State state(cut("w", {10 * block_elements}, -1, 1), {"param"}, 1);
  testing::write_small(*storage, 1, "a", state);
  const ManifestEntry entry = read_manifest(*storage, "a").entries[0];
  auto bytes = read_file(*storage, entry.file);
  for (const int block : {2, 3, 4, 9}) {
    bytes[entry.begin + static_cast<std::uint64_t>(block) * 4096] ^= std::byte{1};
  }
  const auto damages = after_replacing(*storage, entry.file, bytes, state);
  ASSERT_EQ(damages.size(), 3u);
  const auto range = [&](std::uint64_t lo, std::uint64_t hi) {
    return ", bytes [" + std::to_string(entry.begin + lo * 4096) + ", " +
           std::to_string(entry.begin + hi * 4096) + ")";
  };
  EXPECT_TRUE(damages[0].where.ends_with(range(2, 5))) << damages[0].where;
  EXPECT_TRUE(contains(damages[0].expected, "and 2 blocks more"));
  EXPECT_TRUE(damages[1].where.ends_with(range(9, 10))) << damages[1].where;
  EXPECT_EQ(damages[2].where, entry.file);
}

TEST(Verify, AManifestThatTellsOtherTensorsThanTheFileIsFound) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 1, "a", state);
  const Manifest whole = read_manifest(*storage, "a");
  const auto damages_of = [&](const Manifest& manifest) {
    std::string text;
    for (const Damage& damage : verify_file(*storage, manifest, manifest.files[0])) {
      text += damage.where + ": " + damage.expected + " / " + damage.found + "\n";
    }
    return text;
  };
  EXPECT_EQ(damages_of(whole), "");
  Manifest changed = whole;
  changed.entries[0].dtype = Dtype::i32;
  EXPECT_TRUE(contains(damages_of(changed), "I32 at bytes")) << damages_of(changed);
  changed = whole;
  changed.entries[0].tensor = "other";
  EXPECT_TRUE(contains(damages_of(changed), "a tensor 'other' / none"));
  EXPECT_TRUE(contains(damages_of(changed), "only tensors of the manifest"));
  changed = whole;
  std::swap(changed.entries[0].begin, changed.entries[1].begin);
  EXPECT_TRUE(contains(damages_of(changed), "header: "));
  // Digests that the bytes do not have.
  changed = whole;
  changed.files[0].digest = sha256("another");
  EXPECT_EQ(damages_of(changed), whole.files[0].file + ": digest " + sha256("another").hex() +
                                     " / digest " + whole.files[0].digest.hex() + "\n");
  changed = whole;
  changed.files[0].head_sha256 = sha256("another");
  EXPECT_TRUE(contains(damages_of(changed), ": header, bytes [0, ")) << damages_of(changed);
}

// Reads fail, as of a disk that is going bad.
class Unreadable : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override {
    if (path.ends_with(".safetensors")) {
      throw Error(ErrorKind::io, "read " + path, "Input/output error");
    }
    ForwardingStorage::read(path, offset, out);
  }
};

TEST(Verify, AnUnreadableFileIsDamage) {
  const std::shared_ptr<Storage> storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 1, "a", state);
  Unreadable unreadable(storage);
  const auto damages = verify_checkpoint(unreadable, "a");
  ASSERT_FALSE(damages.empty());
  EXPECT_TRUE(contains(damages.back().found, "Input/output error"));
  EXPECT_EQ(
      error_of([&] { load_state(unreadable, read_manifest(unreadable, "a"), state.all()); }).kind(),
      ErrorKind::io);
}

TEST(ReadWhole, GivesTheManifestOrTheSameErrorOnAllRanks) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 4, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  for (int ranks : {1, 2, 3, 6}) {
    run_world(ranks, [&](Communicator& comm) {
      EXPECT_EQ(read_whole(*storage, comm, "a").print(), manifest.print());
      EXPECT_EQ(error_of([&] { read_whole(*storage, comm, "b"); }).kind(), ErrorKind::bad_input);
    });
  }
  for (const ShardFileRef& file : manifest.files) {
    const auto whole = read_file(*storage, file.file);
    auto bytes = whole;
    bytes.back() ^= std::byte{1};
    replace_file(*storage, file.file, bytes);
    run_world(3, [&](Communicator& comm) {
      const Error error = error_of([&] { read_whole(*storage, comm, "a"); });
      EXPECT_EQ(error.kind(), ErrorKind::corrupt);
      EXPECT_TRUE(contains(error.place(), "checkpoint a: " + file.file)) << error.what();
    });
    replace_file(*storage, file.file, whole);
  }
}

// What is not in any block: sizes, heads, and whether the heads tell the manifest's tensors.
TEST(OpenCheckpoint, FindsWhatNoBlockHoldsAndLeavesTheBlocksToTheirReader) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 3, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  const auto after = [&](const ShardFileRef& file, const std::vector<std::byte>& bytes) {
    const auto whole = read_file(*storage, file.file);
    replace_file(*storage, file.file, bytes);
    std::string found = "nothing";
    run_world(2, [&](Communicator& comm) {
      try {
        EXPECT_EQ(open_checkpoint(*storage, comm, "a").seal, manifest.seal);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
        if (comm.rank() == 0) found = error.what();
      }
    });
    replace_file(*storage, file.file, whole);
    return found;
  };
  for (const ShardFileRef& file : manifest.files) {
    const auto whole = read_file(*storage, file.file);
    EXPECT_EQ(after(file, whole), "nothing");
    for (std::size_t i = 0; i < file.head; i += 17) {
      auto bytes = whole;
      bytes[i] ^= static_cast<std::byte>(1u << (i % 8));
      EXPECT_TRUE(contains(after(file, bytes), "checkpoint a: " + file.file + ": header"))
          << "byte " << i;
    }
    auto bytes = whole;
    bytes.push_back({});
    EXPECT_TRUE(contains(after(file, bytes), std::to_string(whole.size() + 1) + " bytes"));
    bytes.resize(whole.size() - 1);
    EXPECT_TRUE(contains(after(file, bytes), std::to_string(whole.size() - 1) + " bytes"));
    bytes.resize(3);
    EXPECT_TRUE(contains(after(file, bytes), "3 bytes"));
    bytes = whole;
    bytes[file.head] ^= std::byte{1};  // of a block: load_state's to find, by those who need it
    EXPECT_EQ(after(file, bytes), "nothing");
    replace_file(*storage, file.file, bytes);
    expect_never_loaded(*storage, "a", state);
    State loaded = state;
    EXPECT_EQ(error_of([&] { load_state(*storage, manifest, loaded.all()); }).kind(),
              ErrorKind::corrupt);
    replace_file(*storage, file.file, whole);
  }
  // Another rank's shard, cut to the size of this one: its own head is whole, but not this one's.
  auto swapped = read_file(*storage, manifest.files[1].file);
  swapped.resize(manifest.files[0].bytes);
  EXPECT_TRUE(contains(after(manifest.files[0], swapped), manifest.files[0].file + ": header"));
}

TEST(ReadWhole, RanksThatSeeDifferentStoragesAreRefused) {
  const auto one = memory_storage();
  const auto two = memory_storage();
  State state = small_state(1);
  testing::write_small(*one, 1, "a", state);
  testing::write_small(*two, 1, "a", state);
  run_world(2, [&](Communicator& comm) {
    Storage& mine = comm.rank() == 0 ? *one : *two;
    EXPECT_EQ(error_of([&] { read_whole(mine, comm, "a"); }).kind(), ErrorKind::mismatch);
    EXPECT_EQ(error_of([&] { open_checkpoint(mine, comm, "a"); }).kind(), ErrorKind::mismatch);
  });
}

}  // namespace
}  // namespace shardproof

// ctest: fault timeout=300
// A folder that is not ours alone: links that lead outside, names that are taken, foreign files, a
// root that is gone, manifests that claim exabytes. Nothing outside is read, nothing foreign is
// touched, nothing of the claimed size is allocated.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>

#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/shard_file.h"
#include "faults/crash_states/crash_world.h"

namespace {

std::atomic<std::size_t> largest_allocation{0};

}  // namespace

// All of the program's allocations come here, those in the libraries too. Not inlined: the compiler
// would see a free of what it takes to be new's.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  std::size_t before = largest_allocation;
  while (before < bytes && !largest_allocation.compare_exchange_weak(before, bytes)) {
  }
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace shardproof::damage {
namespace {

namespace fs = std::filesystem;
using crash::facts_of;
using crash::small_state;
using testing::contains;
using testing::error_of;
using testing::read_file;
using testing::replace_file;
using testing::sealed;

void save(Storage& storage, const std::string& id, std::uint64_t seed) {
  testing::State state = small_state(seed);
  testing::write_small(storage, 2, id, state, facts_of(id));
}

// Every name below the folder, with the bytes of files and the targets of links.
std::map<std::string, std::string> tree(const std::string& root) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string path = entry.path().string();
    if (entry.is_symlink()) {
      out[path] = "-> " + fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      std::ifstream in(path, std::ios::binary);
      out[path] = {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    } else {
      out[path] = "/";
    }
  }
  return out;
}

TEST(Hostile, LinksThatLeadOutsideAreRefusedThoughTheBytesAreRight) {
  const TempFolder outside;
  const TempFolder folder;
  const auto storage = posix_storage(folder.path(), false);
  save(*storage, "step-1", 1);
  const std::string shard = read_manifest(*storage, "step-1").files[0].file;
  const std::string shards = shard.substr(0, shard.find('/'));
  for (const std::string& moved : {shard, shards, manifest_path("step-1")}) {
    fs::rename(folder.file(moved), outside.file("moved"));
    fs::create_symlink(outside.file("moved"), folder.file(moved));
    const auto damages = verify_checkpoint(*storage, "step-1");
    ASSERT_FALSE(damages.empty()) << moved;
    EXPECT_TRUE(contains(damages[0].found, "symbolic link")) << damages[0].found;
    testing::State loaded = small_state(9);
    const Error error =
        error_of([&] { load_state(*storage, read_manifest(*storage, "step-1"), loaded.all()); });
    EXPECT_EQ(error.kind(), ErrorKind::refused) << error.what();
    fs::remove(folder.file(moved));
    fs::rename(outside.file("moved"), folder.file(moved));
  }
  EXPECT_TRUE(verify_checkpoint(*storage, "step-1").empty());
}

TEST(Hostile, ForeignAndHalfWrittenThingsAreLeftUntouched) {
  const TempFolder folder;
  const auto storage = posix_storage(folder.path(), false);
  const std::string nonce = "0123456789abcdef";
  fs::create_directories(folder.file("step-2.shards-" + nonce));
  fs::create_directories(folder.file("other/folder"));
  fs::create_symlink("/etc", folder.file("step-3.shards-" + nonce));
  folder.write("step-2.shards-" + nonce + "/rank_00000.safetensors", "half");
  folder.write("step-2.manifest-" + nonce + ".tmp", "{\"shardproof_checkpoint\":1");
  folder.write(".manifest.json", "hidden");
  folder.write("notes.txt", "mine");
  const auto before = tree(folder.path());
  save(*storage, "step-1", 1);
  save(*storage, "step-2", 2);
  save(*storage, "step-2", 2);
  EXPECT_THROW(save(*storage, "step-2", 3), Error);
  EXPECT_EQ(list_checkpoints(*storage), (std::vector<std::string>{"step-1", "step-2"}));
  EXPECT_TRUE(verify_checkpoint(*storage, "step-2").empty());
  const auto after = tree(folder.path());
  for (const auto& [path, bytes] : before) {
    EXPECT_TRUE(after.contains(path)) << path;
    EXPECT_EQ(after.at(path), bytes) << path;
  }
  // Two checkpoints of a manifest, a directory and two shards each.
  EXPECT_EQ(after.size(), before.size() + 8);
}

TEST(Hostile, ATakenManifestNameIsNoCheckpointAndIsLeftUntouched) {
  const TempFolder folder;
  const auto storage = posix_storage(folder.path(), false);
  fs::create_directories(folder.file(manifest_path("step-1")));
  fs::create_symlink("/etc/passwd", folder.file(manifest_path("step-2")));
  folder.write(manifest_path("step-3"), "");
  const auto before = tree(folder.path());
  for (const std::string id : {"step-1", "step-2", "step-3"}) {
    const Error error = error_of([&] { save(*storage, id, 1); });
    EXPECT_TRUE(contains(error.what(), manifest_path(id))) << error.what();
    EXPECT_FALSE(verify_checkpoint(*storage, id).empty());
  }
  EXPECT_EQ(tree(folder.path()), before);
  EXPECT_EQ(list_checkpoints(*storage).size(), 3u);  // "the newest" runs into them, not past them
}

TEST(Hostile, ARootThatIsGoneIsNamedAndNotMadeAnew) {
  const TempFolder folder;
  const std::string root = folder.file("root");
  const auto storage = posix_storage(root, true);
  save(*storage, "step-1", 1);
  fs::remove_all(root);
  const Error error = error_of([&] { save(*storage, "step-2", 2); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_TRUE(contains(error.place(), "make directory " + root)) << error.what();
  EXPECT_TRUE(contains(error.detail(), "No such file")) << error.what();
  EXPECT_FALSE(fs::exists(root));
  EXPECT_EQ(error_of([&] { posix_storage(root, false); }).kind(), ErrorKind::bad_input);
}

// A manifest that the parser accepts line by line, with one claim blown up.
TEST(Hostile, NothingOfTheClaimedSizeIsAllocated) {
  const auto storage = memory_storage();
  save(*storage, "step-1", 1);
  const auto bytes = read_file(*storage, manifest_path("step-1"));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  static constexpr std::int64_t huge = std::int64_t{1} << 50;
  const auto attack = [&](const std::function<void(Json&)>& edit) {
    Json json = parse_json(text, "manifest");
    edit(json);
    const std::string edited = sealed(json);
    replace_file(*storage, manifest_path("step-1"), std::as_bytes(std::span(edited)));
    testing::State loaded = small_state(9);
    largest_allocation = 0;
    EXPECT_FALSE(verify_checkpoint(*storage, "step-1").empty()) << edited;
    try {
      load_state(*storage, read_manifest(*storage, "step-1"), loaded.all());
      EXPECT_TRUE(loaded == small_state(1)) << edited;
    } catch (const Error&) {
    }
    EXPECT_GT(largest_allocation, edited.size() / 4);  // it is watched, in the library too
    EXPECT_LT(largest_allocation, 4u << 20) << edited;
  };
  attack([](Json& json) { json["files"][0]["bytes"] = huge; });
  for (const char* key : {"shape", "range", "bytes"}) {
    for (std::size_t entry = 0; entry < 4; ++entry) {
      attack([&](Json& json) { json["entries"][entry][key][0] = huge; });
      attack([&](Json& json) { json["entries"][entry][key].back() = huge; });
    }
  }
  attack([](Json& json) { json["entries"][0]["box"]["shape"][0] = huge; });
  attack([](Json& json) { json["entries"][0]["box"]["offsets"][0] = huge; });
  attack([](Json& json) { json["entries"][0]["pieces"] = huge; });
  attack([](Json& json) { json["facts"]["step"] = huge; });
  attack([](Json& json) {
    json["files"][0]["bytes"] = huge;
    json["entries"][0]["shape"] = {huge};
    json["entries"][0]["box"] = {{"offsets", {0}}, {"shape", {huge}}};
    json["entries"][0]["range"] = {0, huge};
    json["entries"][0]["bytes"] = {0, huge * 4};
  });
}

// Files whose size alone is the attack: they are refused without being read.
class HugeFiles : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  std::uint64_t size(const std::string& path) override {
    return path.ends_with(suffix) ? std::uint64_t{1} << 50 : ForwardingStorage::size(path);
  }
  std::string suffix;
};

TEST(Hostile, AHugeFileIsRefusedByItsSize) {
  const std::shared_ptr<Storage> storage = memory_storage();
  save(*storage, "step-1", 1);
  HugeFiles files(storage);
  for (const char* suffix : {".manifest.json", "/rank_00000.safetensors"}) {
    files.suffix = suffix;
    largest_allocation = 0;
    const auto damages = verify_checkpoint(files, "step-1");
    ASSERT_FALSE(damages.empty());
    EXPECT_TRUE(contains(damages[0].found, "1125899906842624")) << damages[0].found;
    EXPECT_LT(largest_allocation, 4u << 20);
  }
}

TEST(Hostile, AHeaderOverTheLimitIsRefusedByItsLength) {
  const auto storage = memory_storage();
  for (const std::uint64_t length :
       {max_header_bytes + 1, std::uint64_t{1} << 40, ~std::uint64_t{0}}) {
    std::vector<std::byte> bytes(64);
    std::memcpy(bytes.data(), &length, sizeof length);
    replace_file(*storage, "f", bytes);
    largest_allocation = 0;
    EXPECT_EQ(error_of([&] { read_shard_header(*storage, "f"); }).kind(), ErrorKind::corrupt);
    EXPECT_LT(largest_allocation, 1u << 20);
  }
}

}  // namespace
}  // namespace shardproof::damage

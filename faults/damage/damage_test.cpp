// ctest: fault timeout=300
// Damage to a whole checkpoint, beyond single bytes (verify_test): a cut names every entry that it
// reaches, exchanged shards every entry they hold, and of two manifests only the own one counts.
// Whatever verify finds is never loaded.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/checkpoint_testing.h"
#include "faults/crash_states/crash_world.h"

namespace shardproof::damage {
namespace {

using crash::facts_of;
using crash::small_state;
using testing::contains;
using testing::error_of;
using testing::read_file;
using testing::replace_file;

void save(Storage& storage, const std::string& id, std::uint64_t seed, int ranks = 2) {
  testing::State state = small_state(seed);
  testing::write_small(storage, ranks, id, state, facts_of(id));
}

bool names(const std::vector<Damage>& damages, const std::string& part) {
  return std::any_of(damages.begin(), damages.end(),
                     [&](const Damage& damage) { return contains(damage.where, part); });
}

std::string text(const std::vector<Damage>& damages) {
  std::string out;
  for (const Damage& d : damages) out += d.where + ": " + d.expected + " / " + d.found + "\n";
  return out;
}

void expect_never_loaded(Storage& storage, const std::string& id, std::uint64_t seed) {
  testing::State loaded = small_state(9);
  loaded.clear();
  try {
    load_state(storage, read_manifest(storage, id), loaded.all());
  } catch (const Error&) {
    return;
  }
  EXPECT_TRUE(loaded == small_state(seed));
}

// The entries of `file` with bytes in [begin, end) must each be named with file and byte range.
void expect_entries_named(const std::vector<Damage>& damages, const Manifest& manifest,
                          const std::string& file, std::uint64_t begin, std::uint64_t end) {
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.file != file || entry.end <= begin || entry.begin >= end) continue;
    EXPECT_TRUE(names(damages, file + ": " + entry.label() + ", bytes [")) << text(damages);
  }
}

TEST(Damage, ACutNamesEveryEntryThatItReaches) {
  const auto storage = memory_storage();
  save(*storage, "step-1", 1);
  const Manifest manifest = read_manifest(*storage, "step-1");
  for (const ShardFileRef& file : manifest.files) {
    const auto whole = read_file(*storage, file.file);
    for (std::size_t size = 0; size < whole.size(); size += size < 600 ? 1 : 61) {
      replace_file(*storage, file.file, std::span(whole).first(size));
      const auto damages = verify_checkpoint(*storage, "step-1");
      expect_entries_named(damages, manifest, file.file, size, whole.size());
      expect_never_loaded(*storage, "step-1", 1);
    }
    replace_file(*storage, file.file, whole);
  }
  EXPECT_TRUE(verify_checkpoint(*storage, "step-1").empty());
}

TEST(Damage, OfExchangedShardsNamesEveryEntry) {
  const auto storage = memory_storage();
  save(*storage, "step-1", 1);
  save(*storage, "step-2", 2);
  const Manifest one = read_manifest(*storage, "step-1");
  const Manifest two = read_manifest(*storage, "step-2");
  // The same rank's shard of another checkpoint: the same tensors, other bytes.
  for (std::size_t i = 0; i < one.files.size(); ++i) {
    const auto before = read_file(*storage, one.files[i].file);
    replace_file(*storage, one.files[i].file, read_file(*storage, two.files[i].file));
    const auto damages = verify_checkpoint(*storage, "step-1");
    expect_entries_named(damages, one, one.files[i].file, 0, one.files[i].bytes);
    EXPECT_FALSE(names(damages, one.files[1 - i].file)) << text(damages);
    expect_never_loaded(*storage, "step-1", 1);
    replace_file(*storage, one.files[i].file, before);
  }
  // Two ranks' shards: other tensors. The header says so of each.
  const auto first = read_file(*storage, one.files[0].file);
  replace_file(*storage, one.files[0].file, read_file(*storage, one.files[1].file));
  replace_file(*storage, one.files[1].file, first);
  const std::string found = text(verify_checkpoint(*storage, "step-1"));
  for (const ManifestEntry& entry : one.entries) {
    EXPECT_TRUE(contains(found, entry.file + ": header: a tensor '" + entry.tensor + "' / none"))
        << found;
  }
  expect_never_loaded(*storage, "step-1", 1);
}

TEST(Damage, OfARenumberedShardNamesTheFile) {
  const auto storage = memory_storage();
  save(*storage, "step-1", 1);
  const Manifest manifest = read_manifest(*storage, "step-1");
  const std::string file = manifest.files[1].file;
  storage->link(file, file.substr(0, file.rfind('/')) + "/rank_00007.safetensors");
  EXPECT_TRUE(verify_checkpoint(*storage, "step-1").empty());  // a second name is no damage
  storage->remove(file);
  EXPECT_TRUE(names(verify_checkpoint(*storage, "step-1"), file));
  expect_never_loaded(*storage, "step-1", 1);
}

// A manifest of one attempt beside shards of another, and one manifest under two ids.
TEST(Damage, OfTwoManifestsOnlyTheOwnCounts) {
  const auto storage = memory_storage();
  save(*storage, "step-1", 1);
  const auto mine = read_file(*storage, manifest_path("step-1"));
  const std::string file = read_manifest(*storage, "step-1").files[0].file;

  storage->link(manifest_path("step-1"), manifest_path("step-5"));
  EXPECT_TRUE(contains(text(verify_checkpoint(*storage, "step-5")), "is the manifest of 'step-1'"));
  EXPECT_TRUE(verify_checkpoint(*storage, "step-1").empty());
  EXPECT_EQ(list_checkpoints(*storage), (std::vector<std::string>{"step-1", "step-5"}));
  EXPECT_EQ(error_of([&] { read_manifest(*storage, "step-5"); }).kind(), ErrorKind::corrupt);
  storage->remove(manifest_path("step-5"));

  // Another attempt at the same id, elsewhere: its manifest names shards that are not here.
  const auto other = memory_storage();
  save(*other, "step-1", 2);
  const auto theirs = read_file(*other, manifest_path("step-1"));
  replace_file(*storage, manifest_path("step-1"), theirs);
  const auto damages = verify_checkpoint(*storage, "step-1");
  EXPECT_EQ(damages.size(), 2u) << text(damages);
  EXPECT_TRUE(names(damages, read_manifest(*other, "step-1").files[0].file)) << text(damages);
  expect_never_loaded(*storage, "step-1", 2);

  // Both texts in one file, either way round.
  for (const auto& [a, b] : {std::pair{mine, theirs}, {theirs, mine}}) {
    auto both = a;
    both.insert(both.end(), b.begin(), b.end());
    replace_file(*storage, manifest_path("step-1"), both);
    EXPECT_FALSE(verify_checkpoint(*storage, "step-1").empty());
    EXPECT_EQ(error_of([&] { read_manifest(*storage, "step-1"); }).kind(), ErrorKind::corrupt);
  }
  replace_file(*storage, manifest_path("step-1"), mine);
  EXPECT_TRUE(verify_checkpoint(*storage, "step-1").empty());
  EXPECT_TRUE(storage->exists(file));
}

}  // namespace
}  // namespace shardproof::damage

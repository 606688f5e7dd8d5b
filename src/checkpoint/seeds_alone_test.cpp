// ctest: comm timeout=60
// A checkpoint that keeps seeds alone: no tensor is written, its state digest is that of a whole
// one, it never takes a whole one's place, and what needs tensors refuses it by name.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/recut.h"
#include "checkpoint/retention.h"
#include "checkpoint/set_aside.h"
#include "checkpoint/weights_file.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::small_facts;
using testing::small_state;
using testing::State;
using Ids = std::vector<std::string>;

SaveReport save(Storage& storage, std::int64_t step, SaveAs as, std::uint64_t seed = 1,
                int ranks = 2) {
  State state = small_state(seed);
  SaveReport report;
  testing::run_world(ranks, [&](Communicator& comm) {
    const auto items =
        state.items<SaveItem>(share_bound(state.blocks(), comm.size(), comm.rank()),
                              share_bound(state.blocks(), comm.size(), comm.rank() + 1));
    const Digest digest = state_digest_of(comm, items);
    const SaveReport mine =
        save_checkpoint(storage, comm, step_id(step), small_facts(step), items, as);
    EXPECT_EQ(mine.state_digest.hex(), digest.hex());
    if (comm.rank() == 0) report = mine;
  });
  return report;
}

TEST(SeedsAlone, OneSmallFileWithTheDigestOfTheWholeState) {
  const auto storage = memory_storage();
  const SaveReport seeds = save(*storage, 10, SaveAs::seeds);
  EXPECT_EQ(seeds.bytes, 0u);
  EXPECT_EQ(storage->list(""), Ids{manifest_path(step_id(10))});
  EXPECT_EQ(seeds.state_digest.hex(), save(*storage, 20, SaveAs::sharded).state_digest.hex());
  EXPECT_TRUE(verify_checkpoint(*storage, step_id(10)).empty());
  const Manifest manifest = read_manifest(*storage, step_id(10));
  ASSERT_TRUE(manifest.seeds_alone.has_value());
  EXPECT_EQ(manifest.state_digest().hex(), seeds.state_digest.hex());
  EXPECT_FALSE(weights_alone(manifest));
  EXPECT_EQ(Manifest::parse(manifest.print(), "again").print(), manifest.print());
}

TEST(SeedsAlone, AnIdThatIsThereIsComparedByDigest) {
  const auto storage = memory_storage();
  save(*storage, 10, SaveAs::seeds);
  for (const SaveAs as : {SaveAs::seeds, SaveAs::sharded}) {
    EXPECT_FALSE(save(*storage, 10, as, 1, 3).written);
    const Error error = error_of([&] { save(*storage, 10, as, 2); });
    EXPECT_EQ(error.kind(), ErrorKind::conflict);
    EXPECT_TRUE(contains(error.what(), "state digest")) << error.what();
  }
  EXPECT_EQ(storage->list("").size(), 1u);
}

TEST(SeedsAlone, AFlippedByteIsFoundAndTheManifestSetAside) {
  const auto storage = memory_storage();
  save(*storage, 10, SaveAs::sharded);
  save(*storage, 20, SaveAs::seeds);
  auto bytes = testing::read_file(*storage, manifest_path(step_id(20)));
  for (const std::size_t at : {std::size_t{5}, bytes.size() / 2, bytes.size() - 10}) {
    auto bad = bytes;
    bad[at] ^= std::byte{1};
    testing::replace_file(*storage, manifest_path(step_id(20)), bad);
    EXPECT_FALSE(verify_checkpoint(*storage, step_id(20)).empty()) << at;
  }
  EXPECT_EQ(set_aside_damaged(*storage, step_id(10)), Ids{step_id(20)});
  EXPECT_EQ(list_checkpoints(*storage), Ids{step_id(10)});
}

TEST(SeedsAlone, BesideEntriesIsRefused) {
  const auto storage = memory_storage();
  save(*storage, 10, SaveAs::sharded);
  Json json = parse_json(read_manifest(*storage, step_id(10)).print(), "manifest");
  json["seeds_alone"] = Json{{"attempt", "x"}};
  const Error error = error_of([&] { Manifest::parse(testing::sealed(json), "file"); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error.what(), "seeds_alone: beside 2 files")) << error.what();
}

TEST(SeedsAlone, WhatNeedsTensorsRefusesItByName) {
  const auto storage = memory_storage();
  save(*storage, 10, SaveAs::seeds);
  const Manifest manifest = read_manifest(*storage, step_id(10));
  for (const Error& error :
       {error_of([&] { export_weights(*storage, manifest, *storage, "w.safetensors"); }),
        error_of([&] { load_recut(*storage, manifest, {}); })}) {
    EXPECT_EQ(error.kind(), ErrorKind::refused);
    EXPECT_TRUE(contains(error.what(), "step-00000010: it keeps seeds alone")) << error.what();
  }
}

TEST(SeedsAlone, DiffKnowsTheDigestAlone) {
  const auto storage = memory_storage();
  save(*storage, 10, SaveAs::seeds);
  save(*storage, 20, SaveAs::sharded);
  save(*storage, 30, SaveAs::sharded, 3);
  const auto diff = [&](std::int64_t a, std::int64_t b) {
    return diff_checkpoints(*storage, read_manifest(*storage, step_id(a)), *storage,
                            read_manifest(*storage, step_id(b)));
  };
  EXPECT_TRUE(diff(10, 20).empty());
  ASSERT_EQ(diff(30, 10).size(), 1u);
  EXPECT_EQ(diff(30, 10)[0].entry, "state digest");
}

TEST(SeedsAlone, ThePruneKeepsTheNewestTensorsBesideThemAndVerifiesBoth) {
  const auto storage = memory_storage();
  save(*storage, 10, SaveAs::sharded);
  save(*storage, 20, SaveAs::sharded);
  save(*storage, 30, SaveAs::seeds);
  save(*storage, 40, SaveAs::seeds);
  const std::string file = read_manifest(*storage, step_id(20)).files[0].file;
  const auto whole = testing::read_file(*storage, file);
  auto bad = whole;
  bad.back() ^= std::byte{1};
  testing::replace_file(*storage, file, bad);
  EXPECT_TRUE(contains(prune(*storage, {1, 0}).kept_because, step_id(20)));
  testing::replace_file(*storage, file, whole);
  EXPECT_EQ(prune(*storage, {1, 0}).removed, (Ids{step_id(10), step_id(30)}));
  EXPECT_EQ(list_checkpoints(*storage), (Ids{step_id(20), step_id(40)}));
}

TEST(Prune, OneInUseStaysUntilItIsNot) {
  const auto storage = memory_storage();
  for (const std::int64_t step : {10, 20, 30}) save(*storage, step, SaveAs::sharded);
  EXPECT_EQ(prune(*storage, {1, 0}, {step_id(10)}).removed, Ids{step_id(20)});
  EXPECT_EQ(prune(*storage, {1, 0}).removed, Ids{step_id(10)});
}

}  // namespace
}  // namespace shardproof

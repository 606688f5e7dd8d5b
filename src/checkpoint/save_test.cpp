// ctest: comm timeout=120
// save and load: round trips for any shares on both storages; an id is immutable; a failure on one
// rank is one on all and leaves nothing committed.
#include "checkpoint/save.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::FailingStorage;
using testing::run_world;
using testing::small_facts;
using testing::small_state;
using testing::State;

// Saves with the given bounds (ranks + 1 of them), loads it all, compares.
SaveReport round_trip(Storage& storage, State& state, const std::vector<std::int64_t>& bounds,
                      const std::string& id) {
  SaveReport report;
  run_world(static_cast<int>(bounds.size()) - 1, [&](Communicator& comm) {
    const auto rank = static_cast<std::size_t>(comm.rank());
    const auto items = state.items<SaveItem>(bounds[rank], bounds[rank + 1]);
    const SaveReport mine = save_checkpoint(storage, comm, id, small_facts(), items);
    if (rank == 0) report = mine;
  });
  State loaded = state;
  loaded.clear();
  load_state(storage, read_manifest(storage, id), loaded.all());
  EXPECT_TRUE(loaded == state);
  EXPECT_TRUE(verify_checkpoint(storage, id).empty());
  return report;
}

TEST(Save, RoundTripsOnBothStoragesForOneToSixRanks) {
  const TempFolder directory;
  const auto memory = memory_storage();
  const auto posix = posix_storage(directory.path(), false);
  for (Storage* storage : {memory.get(), posix.get()}) {
    Digest first;
    for (int ranks = 1; ranks <= 6; ++ranks) {
      State state = small_state(1);
      std::vector<std::int64_t> bounds;
      for (int r = 0; r <= ranks; ++r) bounds.push_back(share_bound(state.blocks(), ranks, r));
      const SaveReport report =
          round_trip(*storage, state, bounds, "ranks-" + std::to_string(ranks));
      EXPECT_TRUE(report.written);
      EXPECT_GT(report.bytes, 8u * (2800 + 5 + 1 + 3000 + 27));
      EXPECT_GT(report.cpu_seconds, 0);
      if (ranks == 1) first = report.state_digest;
      EXPECT_EQ(report.state_digest, first) << ranks << " ranks";
    }
  }
}

TEST(Save, RanksWithoutAnythingWriteNoFile) {
  const auto storage = memory_storage();
  State state = small_state(1);
  const std::int64_t all = state.blocks();
  round_trip(*storage, state, {0, 0, 1, 1, all, all}, "uneven");
  EXPECT_EQ(read_manifest(*storage, "uneven").files.size(), 2u);
  for (const std::string& name : storage->list("")) {
    EXPECT_TRUE(!contains(name, "shards") || storage->list(name).size() == 2) << name;
  }
}

RC_GTEST_PROP(Save, AnySharesGiveTheSameStateDigest, ()) {
  State state = small_state(2);
  auto bounds = *rc::gen::container<std::vector<std::int64_t>>(
      *rc::gen::inRange<std::size_t>(0, 6), rc::gen::inRange<std::int64_t>(0, state.blocks() + 1));
  bounds.push_back(0);
  bounds.push_back(state.blocks());
  std::sort(bounds.begin(), bounds.end());
  const auto storage = memory_storage();
  const SaveReport one = round_trip(*storage, state, {0, state.blocks()}, "one");
  const SaveReport many = round_trip(*storage, state, bounds, "many");
  RC_ASSERT(many.state_digest == one.state_digest);
  state.tensors()[3].bytes[2] ^= std::byte{4};
  RC_ASSERT(round_trip(*storage, state, bounds, "other").state_digest != one.state_digest);
}

TEST(Save, KeepsFactsAndLeavesOnlyManifestAndShards) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 2, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  EXPECT_EQ(manifest.facts.step, 10);
  EXPECT_EQ(manifest.facts.config, small_facts().config);
  EXPECT_EQ(manifest.facts.run_line, small_facts().run_line);
  EXPECT_EQ(manifest.facts.cursor, small_facts().cursor);
  EXPECT_EQ(manifest.facts.kernel_fingerprint, "avx512");
  const auto names = storage->list("");
  ASSERT_EQ(names.size(), 2u);
  EXPECT_EQ(names[0], "a.manifest.json");
  EXPECT_TRUE(names[1].starts_with("a.shards-")) << names[1];
}

TEST(Save, AnExistingIdWithTheSameStateIsASuccessThatWritesNothing) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 3, "a", state);
  const auto before = storage->list("");
  for (int ranks : {1, 2, 3}) {  // whatever the shares
    run_world(ranks, [&](Communicator& comm) {
      const SaveReport report = testing::save_small(*storage, comm, "a", state);
      EXPECT_FALSE(report.written);
      EXPECT_EQ(report.state_digest, read_manifest(*storage, "a").state_digest());
    });
  }
  EXPECT_EQ(storage->list(""), before);
}

TEST(Save, AnExistingIdWithAnotherStateOrPositionIsAConflictNamingBoth) {
  const auto storage = memory_storage();
  State state = small_state(1);
  State other = small_state(2);
  testing::write_small(*storage, 2, "a", state);
  const auto before = storage->list("");
  const auto conflict = [&](State& what, const CheckpointFacts& facts) {
    return error_of([&] { testing::write_small(*storage, 2, "a", what, facts); });
  };
  const Error error = conflict(other, small_facts());
  EXPECT_EQ(error.kind(), ErrorKind::conflict);
  const std::string mine = read_manifest(*storage, "a").state_digest().hex();
  EXPECT_TRUE(contains(error.what(), mine)) << error.what();
  testing::write_small(*storage, 2, "b", other);
  EXPECT_TRUE(contains(error.what(), read_manifest(*storage, "b").state_digest().hex()));
  EXPECT_TRUE(contains(conflict(state, small_facts(11)).what(), "step 10; this one has 11"));
  CheckpointFacts facts = small_facts();
  facts.cursor["taken"] = 161;
  EXPECT_TRUE(contains(conflict(state, facts).what(), "cursor"));
  facts = small_facts();
  facts.data_digest = "d2";
  EXPECT_TRUE(contains(conflict(state, facts).what(), "data digest d1; this one has d2"));
  State loaded = small_state(3);
  load_state(*storage, read_manifest(*storage, "a"), loaded.all());
  EXPECT_TRUE(loaded == state);
  testing::write_small(*storage, 2, "c", state);
  EXPECT_EQ(list_checkpoints(*storage).size(), 3u);
  EXPECT_EQ(storage->list("").size(), 3 * before.size());
}

TEST(Save, AnExistingButDamagedIdIsNoSuccess) {
  const auto storage = memory_storage();
  State state = small_state(1);
  testing::write_small(*storage, 2, "a", state);
  const std::string file = read_manifest(*storage, "a").files[1].file;
  auto bytes = testing::read_file(*storage, file);
  bytes.back() ^= std::byte{1};
  testing::replace_file(*storage, file, bytes);
  const Error error = error_of([&] { testing::write_small(*storage, 2, "a", state); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_TRUE(contains(error.what(), file)) << error.what();
}

TEST(Save, OfTwoWritersWithOneIdOneWins) {
  for (int round = 0; round < 20; ++round) {
    const auto storage = memory_storage();
    std::vector<State> states = {small_state(1), small_state(2)};
    std::atomic<int> won{0};
    std::atomic<int> conflicts{0};
    std::vector<std::thread> writers;
    for (State& state : states) {
      writers.emplace_back([&] {
        try {
          testing::write_small(*storage, 2, "a", state);
          ++won;
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::conflict) << error.what();
          ++conflicts;
        }
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(conflicts, 1);
    EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
    EXPECT_EQ(storage->list("").size(), 2u);  // the loser cleared away what it wrote
  }
}

TEST(Save, OfTwoWritersWithTheSameStateBothSucceed) {
  for (int round = 0; round < 20; ++round) {
    const auto storage = memory_storage();
    std::atomic<int> written{0};
    std::vector<std::thread> writers;
    for (int i = 0; i < 2; ++i) {
      writers.emplace_back([&] {
        State state = small_state(1);
        run_world(1, [&](Communicator& comm) {
          written += testing::save_small(*storage, comm, "a", state).written ? 1 : 0;
        });
      });
    }
    for (std::thread& writer : writers) writer.join();
    EXPECT_EQ(written, 1);
    EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
    EXPECT_EQ(storage->list("").size(), 2u);
  }
}

TEST(Save, SharesThatMakeNoWholeStateAreRefusedOnAllRanks) {
  State state = small_state(1);
  const auto refused = [&](const std::vector<std::pair<std::int64_t, std::int64_t>>& shares) {
    const auto storage = memory_storage();
    std::atomic<int> threw{0};
    std::string words;
    run_world(static_cast<int>(shares.size()), [&](Communicator& comm) {
      const auto [begin, end] = shares[static_cast<std::size_t>(comm.rank())];
      const auto items = state.items<SaveItem>(begin, end);
      const Error error =
          error_of([&] { save_checkpoint(*storage, comm, "a", small_facts(), items); });
      ++threw;
      EXPECT_TRUE(error.kind() == ErrorKind::mismatch || error.kind() == ErrorKind::bad_input);
      if (comm.rank() == 0) words = error.what();
    });
    EXPECT_EQ(threw, static_cast<int>(shares.size()));
    EXPECT_TRUE(storage->list("").empty());
    return words;
  };
  const std::int64_t all = state.blocks();
  EXPECT_TRUE(contains(refused({{0, 1}, {2, all}}), "hole"));
  EXPECT_TRUE(contains(refused({{0, 2}, {1, all}}), "overlap"));
  EXPECT_TRUE(contains(refused({{0, all}, {0, all}}), "duplicate"));
  EXPECT_TRUE(contains(refused({{0, all - 1}, {0, 0}}), "the pieces hold"));
  EXPECT_TRUE(contains(refused({{0, 0}, {0, 0}}), "no rank has anything to save"));
}

TEST(Save, RanksMustNameOneLegalId) {
  const auto storage = memory_storage();
  State state = small_state(1);
  run_world(2, [&](Communicator& comm) {
    const std::string id = comm.rank() == 0 ? "a" : "b";
    EXPECT_EQ(error_of([&] { testing::save_small(*storage, comm, id, state); }).kind(),
              ErrorKind::mismatch);
    EXPECT_EQ(error_of([&] { testing::save_small(*storage, comm, "../a", state); }).kind(),
              ErrorKind::bad_input);
  });
  EXPECT_TRUE(storage->list("").empty());
}

TEST(Save, AFailureOnOneRankNamesFileOperationAndRankEverywhere) {
  for (const char* reason : {"No space left on device", "Permission denied"}) {
    const std::shared_ptr<Storage> shared = memory_storage();
    State state = small_state(1);
    std::atomic<int> threw{0};
    run_world(3, [&](Communicator& comm) {
      const int fail_at = comm.rank() == 2 ? 1 : -1;  // its first write
      FailingStorage storage(shared, fail_at, FailingStorage::When::before, false, ErrorKind::io,
                             reason);
      const Error error = error_of([&] { testing::save_small(storage, comm, "a", state); });
      ++threw;
      EXPECT_EQ(error.kind(), ErrorKind::io);
      EXPECT_TRUE(error.place().starts_with("write a.shards-")) << error.what();
      EXPECT_TRUE(error.place().ends_with("/rank_00002.safetensors")) << error.what();
      EXPECT_TRUE(contains(error.detail(), reason)) << error.what();
      EXPECT_EQ(error.world_rank(), 2);
    });
    EXPECT_EQ(threw, 3);
    EXPECT_TRUE(shared->list("").empty());
  }
}

}  // namespace
}  // namespace shardproof

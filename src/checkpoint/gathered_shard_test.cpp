// ctest: comm
// gathered_shard: one file with the state of all ranks, the same state digest as many; a failure of
// the one writer is everybody's, and nobody waits for it.
#include "checkpoint/gathered_shard.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::FailingStorage;
using testing::small_facts;
using testing::small_state;
using testing::State;

SaveReport save_full(Storage& storage, Communicator& comm, const std::string& id, State& state) {
  return save_checkpoint(
      storage, comm, id, small_facts(),
      state.items<SaveItem>(share_bound(state.blocks(), comm.size(), comm.rank()),
                            share_bound(state.blocks(), comm.size(), comm.rank() + 1)),
      SaveAs::full);
}

TEST(GatheredShard, IsOneFileOfTheSameState) {
  State state = small_state(1);
  const auto shards = memory_storage();
  testing::write_small(*shards, 3, "a", state);
  for (const int ranks : {1, 2, 3, 5}) {
    const auto storage = memory_storage();
    testing::run_world(ranks, [&](Communicator& comm) {
      EXPECT_TRUE(save_full(*storage, comm, "a", state).written);
      EXPECT_FALSE(save_full(*storage, comm, "a", state).written);  // there already, compared
    });
    const Manifest manifest = read_manifest(*storage, "a");
    EXPECT_EQ(manifest.files.size(), 1u);
    EXPECT_EQ(manifest.state_digest().hex(), read_manifest(*shards, "a").state_digest().hex());
    EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
    State loaded = state;
    loaded.clear();
    load_state(*storage, manifest, loaded.all());
    EXPECT_TRUE(loaded == state);
  }
}

// More than a chunk an item, so that the writer fails in the middle of one.
TEST(GatheredShard, AFullDiskAtAnyOperationIsEverybodysErrorAndNobodyWaits) {
  const std::vector<PieceSpec> pieces = cut("w", {600, 1024}, -1, 1);
  int fired = 0;
  for (int at = 0; at < 12; ++at) {
    const std::shared_ptr<Storage> shared = memory_storage();
    std::atomic<int> errors{0};
    testing::run_world(2, [&](Communicator& comm) {
      FailingStorage storage(shared, comm.rank() == 0 ? at : -1, FailingStorage::When::torn, false);
      State state(pieces, {"param"}, 1);
      try {
        save_full(storage, comm, "a", state);
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
        ++errors;
      }
      if (storage.fired()) ++fired;
      barrier(comm);
    });
    EXPECT_TRUE(errors == 0 || errors == 2) << errors;
    const auto ids = list_checkpoints(*shared);
    if (errors == 2) {
      EXPECT_TRUE(ids.empty()) << at;
    }
    for (const std::string& id : ids) EXPECT_TRUE(verify_checkpoint(*shared, id).empty());
  }
  EXPECT_GE(fired, 10);
}

}  // namespace
}  // namespace shardproof

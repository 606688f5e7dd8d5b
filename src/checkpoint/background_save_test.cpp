// ctest: comm
// background_save: what was the state at start() is saved, however slow the disk and whatever
// becomes of the state; a failure is everybody's, and leaves what was there before.
#include "checkpoint/background_save.h"

#include <gtest/gtest.h>

#include <future>

#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/load.h"

namespace shardproof {
namespace {

using testing::small_facts;
using testing::small_state;
using testing::State;

// A disk that writes nothing before it is told to.
class GatedStorage : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  void open_gate() { gate_.set_value(); }
  std::unique_ptr<File> create(const std::string& path) override {
    if (opened_.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      throw Error(ErrorKind::timeout, "create " + path, "the gate was never opened");
    }
    return inner().create(path);
  }

 private:
  std::promise<void> gate_;
  std::shared_future<void> opened_ = gate_.get_future().share();
};

std::vector<SaveItem> share_of(State& state, const Communicator& comm) {
  return state.items<SaveItem>(share_bound(state.blocks(), comm.size(), comm.rank()),
                               share_bound(state.blocks(), comm.size(), comm.rank() + 1));
}

std::unique_ptr<Communicator> own_group(Communicator& comm) {
  return comm.split(0, comm.rank(), background_group, default_deadline(comm));
}

State loaded(Storage& storage, const std::string& id, State like) {
  like.clear();
  load_state(storage, read_manifest(storage, id), like.all());
  return like;
}

TEST(BackgroundSave, SavesTheStateThatWasThoughItChangesMeanwhile) {
  GatedStorage storage(memory_storage());
  const State before = small_state(1);
  testing::run_world(2, [&](Communicator& comm) {
    State state = before;
    BackgroundSave save(storage, own_group(comm));
    EXPECT_TRUE(save.ended());
    EXPECT_FALSE(save.finish().has_value());
    save.start("a", small_facts(), share_of(state, comm));
    EXPECT_TRUE(save.under_way());
    EXPECT_FALSE(save.ended());  // the disk stands still, and start() is back
    state.clear();
    barrier(comm);
    if (comm.rank() == 0) storage.open_gate();
    EXPECT_EQ(save.finish()->id, "a");
    EXPECT_FALSE(save.under_way());
  });
  EXPECT_TRUE(verify_checkpoint(storage, "a").empty());
  EXPECT_TRUE(loaded(storage, "a", before) == before);
}

TEST(BackgroundSave, AFailureIsThrownOnAllRanksAndTheNextSaveIsAsGoodAsAny) {
  const std::shared_ptr<Storage> shared = memory_storage();
  State old = small_state(1);
  testing::write_small(*shared, 2, "old", old);
  testing::run_world(2, [&](Communicator& comm) {
    // The shard of rank 1 meets a full disk, once.
    testing::FailingStorage storage(shared, comm.rank() == 1 ? 1 : -1,
                                    testing::FailingStorage::When::torn, false);
    State state = small_state(2);
    BackgroundSave save(storage, own_group(comm));
    save.start("new", small_facts(20), share_of(state, comm));
    const Error error = testing::error_of([&] { save.finish(); });
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_EQ(error.world_rank(), 1);
    barrier(comm);
    EXPECT_EQ(list_checkpoints(*shared), std::vector<std::string>{"old"});
    barrier(comm);
    save.start("new", small_facts(20), share_of(state, comm));
    EXPECT_TRUE(save.finish()->written);
  });
  EXPECT_TRUE(loaded(*shared, "old", old) == old);
  EXPECT_TRUE(loaded(*shared, "new", old) == small_state(2));
}

TEST(BackgroundSave, AnOwnerThatLeavesWaitsForIt) {
  const auto storage = memory_storage();
  testing::run_world(2, [&](Communicator& comm) {
    State state = small_state(1);
    BackgroundSave save(*storage, own_group(comm));
    save.start("a", small_facts(), share_of(state, comm));
  });
  EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
}

TEST(BackgroundSaveDeathTest, OneAtATime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const auto storage = memory_storage();
        ThreadWorld world(1);
        State state = small_state(1);
        BackgroundSave save(*storage, world.communicator(0));
        const auto all = state.items<SaveItem>(0, state.blocks());
        save.start("a", small_facts(), all);
        save.start("b", small_facts(), all);
      },
      "finish it first");
}

}  // namespace
}  // namespace shardproof

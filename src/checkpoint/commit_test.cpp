// ctest: comm timeout=400
// commit: whatever operation fails, and however, the checkpoint is the old one or the new one; the
// order of the operations that this rests on.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::FailingStorage;
using testing::run_world;
using testing::small_facts;
using testing::small_state;
using testing::State;
using When = FailingStorage::When;

std::size_t position(const std::vector<std::string>& log, const std::string& prefix,
                     std::size_t from = 0) {
  for (std::size_t i = from; i < log.size(); ++i) {
    if (log[i].starts_with(prefix)) return i;
  }
  throw std::runtime_error("no operation " + prefix);
}

TEST(Commit, ShardsAreDurableBeforeTheManifestAndTheManifestBeforeSuccess) {
  const std::shared_ptr<Storage> inner = memory_storage();
  FailingStorage storage(inner, -1, When::before, false);
  State state = small_state(1);
  run_world(1, [&](Communicator& comm) { testing::save_small(storage, comm, "a", state); });
  const auto log = storage.log();
  const std::size_t shard = position(log, "create a.shards-");
  const std::size_t shard_sync = position(log, "sync a.shards-");
  const std::size_t directory_sync = position(log, "sync_directory a.shards-");
  const std::size_t root_sync = position(log, "sync_directory ", directory_sync + 1);
  const std::size_t draft = position(log, "create a.manifest-");
  const std::size_t draft_sync = position(log, "sync a.manifest-");
  const std::size_t link = position(log, "link a.manifest.json");
  const std::size_t last_sync = position(log, "sync_directory ", link);
  const std::vector<std::size_t> order = {shard, shard_sync, directory_sync, root_sync,
                                          draft, draft_sync, link,           last_sync};
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_EQ(log[root_sync], "sync_directory ");
  EXPECT_EQ(log[last_sync], "sync_directory ");
  // Nothing is written to a file after its sync.
  for (std::size_t i = shard_sync; i < log.size(); ++i) {
    EXPECT_FALSE(log[i].starts_with("write a.shards-"));
    EXPECT_TRUE(i < draft_sync || !log[i].starts_with("write "));
  }
}

struct Outcome {
  bool threw = false;
  int operations = 0;
  bool fired = false;
};

// A second save onto a storage that holds "old", by ranks of which one has a failing storage.
Outcome attempt(const std::shared_ptr<Storage>& inner, int ranks, int failing_rank, int fail_at,
                When when, bool dead, State& fresh) {
  Outcome outcome;
  std::atomic<int> threw{0};
  run_world(ranks, [&](Communicator& comm) {
    const bool mine = comm.rank() == failing_rank;
    FailingStorage storage(inner, mine ? fail_at : -1, when, dead);
    try {
      testing::save_small(storage, comm, "new", fresh, small_facts(20));
    } catch (const Error&) {
      ++threw;
    }
    if (mine) outcome.operations = storage.operations();
    if (mine) outcome.fired = storage.fired();
  });
  EXPECT_TRUE(threw == 0 || threw == ranks) << threw << " of " << ranks << " ranks failed";
  outcome.threw = threw > 0;
  return outcome;
}

void expect_old_or_new(Storage& storage, const State& old, const State& fresh, bool threw,
                       bool dead, const std::string& where) {
  const auto ids = list_checkpoints(storage);
  const bool committed = ids == std::vector<std::string>{"old", "new"};
  EXPECT_TRUE(committed || ids == std::vector<std::string>{"old"}) << where;
  EXPECT_TRUE(committed || threw) << where << ": success, but nothing was committed";
  EXPECT_TRUE(dead || committed == !threw) << where << ": an Error, but the id is committed";
  for (const std::string& id : ids) {
    EXPECT_TRUE(verify_checkpoint(storage, id).empty()) << where << ": " << id;
    State loaded = small_state(3);
    load_state(storage, read_manifest(storage, id), loaded.all());
    EXPECT_TRUE(loaded == (id == "old" ? old : fresh)) << where << ": " << id;
  }
}

// Every operation of every rank, before, half done and after, once and for good.
void sweep(int ranks, int failing_rank) {
  State old = small_state(1);
  State fresh = small_state(2);
  int failures = 0;
  for (const When when : {When::before, When::torn, When::after}) {
    for (const bool dead : {false, true}) {
      bool more = true;
      for (int at = 0; more; ++at) {
        const std::shared_ptr<Storage> storage = memory_storage();
        testing::write_small(*storage, 1, "old", old);
        const Outcome outcome = attempt(storage, ranks, failing_rank, at, when, dead, fresh);
        more = outcome.fired;
        failures += outcome.threw ? 1 : 0;
        const std::string where = "operation " + std::to_string(at) + " of rank " +
                                  std::to_string(failing_rank) + (dead ? ", dead" : "");
        EXPECT_TRUE(outcome.fired || !outcome.threw) << where;
        expect_old_or_new(*storage, old, fresh, outcome.threw, dead, where);
        // Leftovers are harmless: the next attempt succeeds.
        testing::write_small(*storage, 1, "new", fresh, small_facts(20));
        expect_old_or_new(*storage, old, fresh, false, false, where + ", saved again");
      }
    }
  }
  EXPECT_GT(failures, 20);
}

TEST(Commit, OldOrNewWhateverOperationOfALoneRankFails) {
  sweep(1, 0);
}
TEST(Commit, OldOrNewWhateverOperationOfRank0Fails) {
  sweep(2, 0);
}
TEST(Commit, OldOrNewWhateverOperationOfAnotherRankFails) {
  sweep(3, 1);
}

// Links, then can neither make the link durable nor take it back.
class StuckLink : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  void link(const std::string& from, const std::string& to) override {
    ForwardingStorage::link(from, to);
    linked_ = true;
  }
  void sync_directory(const std::string& path) override {
    if (linked_) throw Error(ErrorKind::io, "sync directory " + path, "Input/output error");
    ForwardingStorage::sync_directory(path);
  }
  void remove(const std::string& path) override {
    if (path == "a.manifest.json") {
      throw Error(ErrorKind::io, "remove " + path, "Read-only file system");
    }
    ForwardingStorage::remove(path);
  }

 private:
  bool linked_ = false;
};

TEST(Commit, ShardsStayWhileAManifestMayReferToThem) {
  const std::shared_ptr<Storage> storage = memory_storage();
  State state = small_state(1);
  StuckLink stuck(storage);
  run_world(2, [&](Communicator& comm) {
    if (comm.rank() == 0) {
      EXPECT_THROW(testing::save_small(stuck, comm, "a", state), Error);
    } else {
      EXPECT_THROW(testing::save_small(*storage, comm, "a", state), Error);
    }
  });
  EXPECT_TRUE(storage->exists("a.manifest.json"));
  EXPECT_TRUE(verify_checkpoint(*storage, "a").empty());
}

TEST(Commit, AFailureThatDoesNotKillClearsAwayWhatItWrote) {
  State state = small_state(1);
  const std::shared_ptr<Storage> storage = memory_storage();
  FailingStorage failing(storage, 6, When::before, false);
  run_world(1, [&](Communicator& comm) {
    EXPECT_THROW(testing::save_small(failing, comm, "a", state), Error);
  });
  EXPECT_TRUE(failing.fired());
  EXPECT_TRUE(storage->list("").empty());
}

}  // namespace
}  // namespace shardproof

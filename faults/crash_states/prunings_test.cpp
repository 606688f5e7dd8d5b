// ctest: fault timeout=120
// prunings: a crash of a prune leaves old or new, loses nothing that stays, and what it leaves of
// the rest the next prune removes; for both, its syncs are needed.
#include "checkpoint/retention.h"
#include "faults/crash_states/scenarios.h"
#include "faults/crash_states/survey_testing.h"

namespace shardproof::crash {
namespace {

TEST(Prunings, OfAnyCrashAreOldOrNew) {
  const Tally all = testing::expect_none_broken(prunings(), 4);
  EXPECT_GT(all.different, 500u);
  EXPECT_EQ(all.count(Verdict::none_yet), 0u);
}

// How many crash states of a prune hold something that the next prune does not remove.
std::size_t leftovers(const Scenario& scenario) {
  std::size_t count = 0;
  for (const Disk& disk : disks_after(scenario, [](std::size_t) { return true; })) {
    const std::shared_ptr<Storage> storage = memory_storage();
    copy(disk, *storage);
    prune(*storage, Retention{1, 0});
    if (storage->list("").size() != 2) ++count;  // a manifest and its folder
  }
  return count;
}

// The prune with its n-th sync taken away; the count of its syncs comes back in `syncs`.
Scenario without_sync(int n, int& syncs) {
  return {"prune without a sync", three_checkpoints, once([n, &syncs](CrashWorld& world) {
            syncs = 0;
            world.journal().set_hook([n, &syncs](const Operation& operation) {
              const bool sync = operation.kind == Operation::Kind::sync_directory;
              return sync && syncs++ == n ? Do::nothing : Do::it;
            });
            world.release("step-1");
            world.release("step-2");
            prune(*world.storage(), Retention{1, 0});
          })};
}

TEST(Prunings, LeaveNothingThatTheNextDoesNotRemove) {
  EXPECT_EQ(leftovers(prunings().front()), 0u);
}

TEST(Prunings, NeedTheirSyncs) {
  int syncs = 1;
  for (int n = 0; n < syncs; ++n) {
    const Scenario scenario = without_sync(n, syncs);
    const std::size_t broken = survey(scenario).count(Verdict::broken);
    EXPECT_GT(broken + leftovers(scenario), 0u) << "sync " << n << " of " << syncs;
  }
  EXPECT_EQ(syncs, 6);  // of each checkpoint that goes: its record, its name, its files
}

}  // namespace
}  // namespace shardproof::crash

// scenarios: see scenarios.h.
#include "faults/crash_states/scenarios.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/background_save.h"
#include "checkpoint/retention.h"
#include "checkpoint/verify.h"

namespace shardproof::crash {
namespace {

Scenario save_on(int ranks, bool first) {
  return {
      fmt::format("{} save on {} rank{}", first ? "first" : "later", ranks, ranks > 1 ? "s" : ""),
      first ? std::function<void(CrashWorld&)>() : one_checkpoint, once([=](CrashWorld& world) {
        first ? world.save("step-1", 1, ranks) : world.save("step-2", 2, ranks);
      })};
}

std::vector<SaveItem> share_of(testing::State& state, const Communicator& comm) {
  return state.items<SaveItem>(share_bound(state.blocks(), comm.size(), comm.rank()),
                               share_bound(state.blocks(), comm.size(), comm.rank() + 1));
}

void save_as_one_file(std::unique_ptr<Communicator> comm, Storage& storage, const std::string& id,
                      testing::State& state) {
  save_checkpoint(storage, *comm, id, facts_of(id), share_of(state, *comm), SaveAs::full);
}

void save_seeds_alone(std::unique_ptr<Communicator> comm, Storage& storage, const std::string& id,
                      testing::State& state) {
  save_checkpoint(storage, *comm, id, facts_of(id), share_of(state, *comm), SaveAs::seeds);
}

// The state is gone as soon as it is copied.
void save_in_background(std::unique_ptr<Communicator> comm, Storage& storage, const std::string& id,
                        testing::State& state) {
  const auto items = share_of(state, *comm);
  BackgroundSave save(storage, std::move(comm));
  save.start(id, facts_of(id), items);
  state.clear();
  save.finish();
}

// A save is cut short at each operation in turn; then there is a save of `next`.
Scenario after_interruption(const std::string& name, Do what, bool dead, const std::string& next) {
  return {name, one_checkpoint, [=](CrashWorld& world, int turn) {
            const bool more =
                world.interrupted(turn, what, dead, [&] { world.save("step-2", 2, 1); });
            if (!next.empty() && more) world.save(next, 2, 1);
            return more;
          }};
}

// Another process saves the id, all of it before one operation of the first.
Scenario writers(const std::string& name, std::uint64_t seed) {
  return {name, one_checkpoint, [=](CrashWorld& world, int turn) {
            return world.interleaved(
                turn, [&] { world.save("step-2", seed, 1); }, [&] { world.save("step-2", 2, 1); });
          }};
}

void prune_to_the_newest(CrashWorld& world) {
  world.release("step-1");
  world.release("step-2");
  prune(*world.storage(), Retention{1, 0});
}

}  // namespace

std::function<bool(CrashWorld&, int)> once(std::function<void(CrashWorld&)> happens) {
  return [happens = std::move(happens)](CrashWorld& world, int) {
    happens(world);
    return false;
  };
}

void one_checkpoint(CrashWorld& world) {
  world.save("step-1", 1, 2);
}

std::vector<Scenario> plain_saves() {
  std::vector<Scenario> out;
  for (const bool first : {true, false}) {
    for (const int ranks : {1, 2, 3}) out.push_back(save_on(ranks, first));
  }
  out.push_back({"save of an id that is there", one_checkpoint,
                 once([](CrashWorld& world) { world.save("step-1", 1, 1); })});
  return out;
}

std::vector<Scenario> other_saves() {
  std::vector<Scenario> out{
      {"a save into one file, 3 ranks", one_checkpoint,
       once([](CrashWorld& world) { world.save("step-2", 2, 3, save_as_one_file); })},
      {"a save of seeds alone, 2 ranks", one_checkpoint,
       once([](CrashWorld& world) { world.save("step-2", 2, 2, save_seeds_alone); })}};
  for (const int ranks : {1, 2, 3}) {
    out.push_back(
        {fmt::format("background save, {} ranks", ranks), one_checkpoint,
         once([=](CrashWorld& world) { world.save("step-2", 2, ranks, save_in_background); })});
  }
  return out;
}

std::vector<Scenario> interrupted_saves() {
  return {
      after_interruption("the same save after a killed one", Do::fail, true, "step-2"),
      after_interruption("the next save after a killed one", Do::fail, true, "step-3"),
      after_interruption("the same save after one killed within a write", Do::half, true, "step-2"),
      after_interruption("a save that fails", Do::fail, false, ""),
      after_interruption("a save told of a failure of what was done", Do::then_fail, false, ""),
      after_interruption("the same save after a failed one", Do::fail, false, "step-2")};
}

Scenario found_after_a_kill(const Journal::Hook& reader) {
  return {"a resume from what a killed save left", one_checkpoint,
          [reader](CrashWorld& world, int turn) {
            const bool more =
                world.interrupted(turn, Do::fail, true, [&] { world.save("step-2", 2, 1); });
            if (!more) return false;
            world.journal().set_hook(reader);
            const auto disk = world.storage();
            const std::string newest = list_checkpoints(*disk).back();
            testing::run_world(1, [&](Communicator& comm) { read_durable(*disk, comm, newest); });
            world.promise(newest);
            return true;
          }};
}

std::vector<Scenario> two_writers() {
  return {writers("two writers of one id with the same state", 2),
          writers("two writers of one id with different states", 3)};
}

void three_checkpoints(CrashWorld& world) {
  world.save("step-1", 1, 2);
  world.save("step-2", 2, 1);
  world.save("step-3", 3, 1);
}

std::vector<Scenario> prunings() {
  return {{"prune to the newest", three_checkpoints, once(prune_to_the_newest)},
          {"prune after a killed one", three_checkpoints,
           [](CrashWorld& world, int turn) {
             const bool more = world.interrupted(turn, Do::fail, true, [&] {
               try {
                 prune_to_the_newest(world);
               } catch (const Error&) {  // killed
               }
             });
             if (more) prune_to_the_newest(world);
             return more;
           }},
          {"save, then prune", one_checkpoint, once([](CrashWorld& world) {
             world.save("step-2", 2, 2);
             prune_to_the_newest(world);
           })}};
}

std::vector<Scenario> second_crashes(const Scenario& first,
                                     const std::function<bool(std::size_t)>& keep) {
  std::vector<Scenario> out;
  for (Disk& disk : disks_after(first, keep)) {
    const bool has_old = disk.contains(manifest_path("step-1"));
    const auto given = [has_old, disk = std::move(disk)](CrashWorld& world) {
      copy(disk, *world.storage());
      world.expect("step-1", 1);
      world.expect("step-2", 2);
      if (has_old) world.promise("step-1");
    };
    out.push_back({fmt::format("{}, crash {}, then a save", first.name, out.size()), given,
                   once([](CrashWorld& world) {
                     world.save("step-2", 2, 1);
                     world.save("step-3", 3, 2);
                   })});
  }
  return out;
}

}  // namespace shardproof::crash

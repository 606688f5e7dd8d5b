// crash_world: where a scenario runs: a recorded disk in memory, ranks on threads, a small state
// per seed, and what has been promised: a checkpoint must be there from promise() to release(), and
// may be there whenever it was expected.
// Thread rule: one thread; save() starts the ranks' threads and joins them.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "checkpoint/small_state_testing.h"
#include "faults/crash_states/journal.h"

namespace shardproof::crash {

// A state of 1,503 elements and their first moment: three blocks and a short one each; 12 kB.
testing::State small_state(std::uint64_t seed);
// The facts of a checkpoint of that state; the step is the number in the id ("step-2").
CheckpointFacts facts_of(const std::string& id);

// How a rank saves its share of `state` under `id`: done, or an Error, when it returns.
using RankSave = std::function<void(std::unique_ptr<Communicator> comm, Storage& storage,
                                    const std::string& id, testing::State& state)>;
void save_plainly(std::unique_ptr<Communicator> comm, Storage& storage, const std::string& id,
                  testing::State& state);

class CrashWorld {
 public:
  CrashWorld();

  // The disk, for code that is one writer: every operation is recorded.
  std::shared_ptr<Storage> storage();

  // Saves the state of `seed` on `ranks` ranks, which may take any order among themselves; when it
  // has succeeded, the id is promised. False: it ended in an Error.
  bool save(const std::string& id, std::uint64_t seed, int ranks,
            const RankSave& rank_save = save_plainly);

  void expect(const std::string& id, std::uint64_t seed);  // the id may be there, with this state
  void promise(const std::string& id);                     // it must be there from here on
  void release(const std::string& id);                     // it need not be from here on
  void settle();           // all so far is durable and was there before the scenario
  void crash_from_here();  // earlier crashes are another scenario's

  // Runs `body`; at the `at`-th operation asked for in it, `what` happens, and, when it is to be
  // `dead`, every later operation fails. True when the operation came.
  bool interrupted(int at, Do what, bool dead, const std::function<void()>& body);
  // Runs `body`; before the `at`-th operation of it, all of `other` (another process, say).
  bool interleaved(int at, const std::function<void()>& other, const std::function<void()>& body);

  Journal& journal() { return *journal_; }
  const std::map<std::string, std::set<std::uint64_t>>& expected() const { return expected_; }
  const std::set<std::string>& given() const { return given_; }  // promised before settle()

 private:
  std::shared_ptr<Storage> memory_;
  std::shared_ptr<Journal> journal_;
  std::map<std::string, std::set<std::uint64_t>> expected_;
  std::set<std::string> given_;
  std::set<std::string> promised_;
};

}  // namespace shardproof::crash

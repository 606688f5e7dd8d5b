// survey: runs scenarios, derives every crash state of each, judges it, and counts by kind.
// A scenario is a name, what lies on the disk before it, and a function of a CrashWorld; one that
// has turns (an interruption at each operation in turn, say) returns whether another follows.
// Thread rule: one thread.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "faults/crash_states/crash_states.h"
#include "faults/crash_states/crash_world.h"
#include "faults/crash_states/judge.h"

namespace shardproof::crash {

struct Scenario {
  std::string name;
  std::function<void(CrashWorld&)> given;              // may be empty: nothing is there
  std::function<bool(CrashWorld&, int turn)> happens;  // true: there is another turn
};

struct SurveyOptions {
  Bounds bounds;
  // One order per scenario is what one writer has; several ranks have three.
  std::vector<RankOrder> orders = {RankOrder::ascending, RankOrder::descending, RankOrder::turns};
  // Every n-th state of a turn is judged, and all those with a checkpoint that was not given.
  std::size_t stride = 1;
  bool stop_at_first = false;  // broken state
  // Put between the code and the disk before the scenario happens (not before what is given).
  Journal::Hook hook;
};

struct Tally {
  std::map<std::string, std::map<Verdict, std::size_t>> by_kind;  // judged states
  std::size_t derived = 0;
  std::size_t different = 0;
  std::size_t judged = 0;
  std::size_t linked_early = 0;     // judged states with a link before its file's bytes
  std::vector<std::string> broken;  // the first few, explained

  std::size_t count(Verdict verdict) const;
  void add(const Tally& other);
  std::string print() const;  // a table, a row a kind
};

Tally survey(const Scenario& scenario, const SurveyOptions& options = {});

// The scenario's different crash states after which `keep` says so (its argument counts them).
std::vector<Disk> disks_after(const Scenario& scenario,
                              const std::function<bool(std::size_t)>& keep);

}  // namespace shardproof::crash

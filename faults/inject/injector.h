// injector: makes the faults of one rank happen in one run. Counts what the rank does (calls of
// each group, file operations), says which faults are due at a point, counts their firings and
// tells `fired` of each before it has any effect, so that a firing is known even when it ends the
// process. Without faults it can list the points it passes (a discovery): `passed` is called under
// a lock. Thread rule: all functions may be called from any thread of the rank.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "faults/inject/fault_script.h"

namespace shardproof {

// What can befall a rank as a whole; threads and processes have each their own way.
class RankPowers {
 public:
  virtual ~RankPowers() = default;
  virtual void end(FaultKind kind, const FaultPoint& at) = 0;  // exit or kill; does not return
  virtual void stand_still(const FaultPoint& at) = 0;          // as SIGSTOP does
  virtual void sleep(Duration duration) = 0;
  virtual void jump_clock(Duration by) = 0;  // the time of day
};

// Where a rank is: the point, and which one it is among those whose operation has the same name.
struct Passing {
  FaultPoint point;  // its number counts everything
  std::string operation{};
  std::uint64_t nth = 0;
};

struct PassedPoint {
  FaultPoint point;
  std::string what;              // "all_reduce F32 x 96", "write step-2.manifest.json"
  std::vector<FaultKind> kinds;  // that can happen here, besides what can happen anywhere
};

struct InjectorParts {
  std::vector<Fault> faults;  // those of this run; of other ranks are ignored
  int rank = 0;
  std::shared_ptr<RankPowers> powers;
  std::function<void(const Fault&)> fired;           // may be empty
  std::function<void(const PassedPoint&)> passed{};  // a discovery; may be empty
};

class Injector {
 public:
  explicit Injector(InjectorParts parts);

  int rank() const { return parts_.rank; }
  bool discovers() const { return parts_.passed != nullptr; }
  // The call or file operation that begins, before it; each function counts for itself.
  Passing next_call(const std::string& group, const std::string& operation);
  Passing next_wire_call(const std::string& group, const std::string& operation);
  Passing next_operation(const std::string& operation);

  // Those that fire here now, of the kinds that `wanted` says: counted and told. What befalls the
  // rank as a whole (see befalls_rank) has happened when this returns. A rank that has ended ends
  // again at every point: what unwinds through it has no effect any more.
  std::vector<Fault> pass(const Passing& passing, bool (*wanted)(FaultKind));
  // The same for the wanted kinds alone: what befalls the rank as a whole waits for another caller.
  std::vector<Fault> pass_alone(const Passing& passing, bool (*wanted)(FaultKind));
  void discovered(PassedPoint point) const;  // precondition: discovers()
  // Whether a fault of such a kind waits for this point, without firing it.
  bool expects(const Passing& passing, bool (*wanted)(FaultKind)) const;

 private:
  std::vector<Fault> due(const Passing& passing, bool (*wanted)(FaultKind), bool with_rank);
  void happen(const Fault& fault);
  void end_again();

  InjectorParts parts_;
  mutable std::mutex mutex_;
  std::vector<int> fired_;  // of each fault
  std::map<std::string, std::uint64_t> counters_;
  std::optional<FaultPoint> ended_;
};

// The same place at another moment.
Passing at_moment(Passing passing, Moment moment);

// exit, kill, stop, exception, delay and clock_jump: at any point.
bool befalls_rank(FaultKind kind);
bool is_wrong_call(FaultKind kind);
bool is_on_wire(FaultKind kind);
bool fails_operation(FaultKind kind);
bool damages_shard(FaultKind kind);
bool changes_state(FaultKind kind);
bool changes_start(FaultKind kind);

}  // namespace shardproof

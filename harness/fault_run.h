// fault_run: one scenario of the fault campaign, from the first run to the end, on thread ranks or
// on MPI processes: trains with the faults of run 0; while a run does not reach the end (or faults
// of later runs are outstanding) another one recovers from the newest whole checkpoint, or from the
// start; then the whole trajectory (loss and gradient norm of every step, the state at the end) is
// compared bit for bit with the same Run without faults, on thread ranks. Thread ranks save in
// memory, processes in a folder that is removed at the end; of a scenario on processes, runs
// without a fault are on threads: they continue what processes saved. References are kept by Run.
//
// What a run came to: see faults/outcome.h. HUNG: a run took longer than `hang_seconds`.
// Thread rule: one scenario at a time per runner.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/storage.h"
#include "data/dataset.h"
#include "faults/inject/fault_script.h"
#include "faults/outcome.h"
#include "harness/fault_board.h"
#include "harness/world.h"
#include "train/config.h"

namespace shardproof {

struct FaultScenario {
  Config config;  // without run.fault and checkpoint.directory
  std::vector<Fault> faults;
  std::string expect;          // outcome of the last run with a fault; empty: what is allowed
  std::string recover_layout;  // of the runs that recover; empty: the same
  bool drawn = false;          // of several drawn faults one may keep another from firing
};

// One of the runs of a scenario.
struct FaultRunEnd {
  std::string from;  // id of the checkpoint it began with; empty: the start
  std::vector<Fault> fired;
  FaultOutcome outcome = FaultOutcome::survived_equal;
  bool complete = false;
  std::string error_kind;  // empty: none
  std::string said;        // the error, or what was found damaged
  int named_rank = -1;
  double seconds = 0;
};

struct FaultResult {
  std::vector<FaultRunEnd> runs;
  FaultOutcome outcome = FaultOutcome::survived_equal;
  bool pass = false;
  std::string why;  // of a failure
  double seconds = 0;
};

class FaultRunner {
 public:
  // `program`: the command `shardproof`, for processes; empty: this executable is it.
  explicit FaultRunner(double hang_seconds, std::string program = "")
      : hang_seconds_(hang_seconds), program_(std::move(program)) {}

  // Error bad_input for a Case that cannot be run (see check); whatever else happens is a result.
  FaultResult run(const FaultScenario& scenario);
  // Every point that the Run passes from its start to its end, rank by rank.
  std::vector<PassedPoint> discover(const Config& config);

 private:
  struct Steps {
    std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> bits;  // loss, gradient norm
    std::string state;                                                     // digest at the end
    bool operator==(const Steps&) const = default;
  };
  struct Attempt;

  const Steps& reference(const Config& config);
  FaultRunEnd run_once(const Attempt& attempt, Steps& steps);
  void run_processes(const Attempt& attempt, RunRequest request, FaultRunEnd& end);
  void run_threads(const Attempt& attempt, RunRequest request, FaultRunEnd& end);
  void judge(const FaultScenario& scenario, const Steps& steps, FaultResult& result);
  std::shared_ptr<const Dataset> dataset(const Config& config);

  const double hang_seconds_;
  std::string program_;
  std::map<std::string, Steps> references_;
  std::map<std::string, std::shared_ptr<const Dataset>> datasets_;
};

// The command that shows a scenario again (but for recover_layout, which a Run line does not have).
std::string fault_replay_line(const FaultScenario& scenario);

}  // namespace shardproof

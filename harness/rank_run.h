// rank_run: one rank of a run, whole: its communicator stack, plan, data, checkpoints, trace,
// metrics and trainer, built in this order, and the loop over steps. Threads and MPI processes run
// the same body. Collective from construction on. Thread rule: the rank's thread.
#pragma once

#include <functional>
#include <memory>

#include "base/json.h"
#include "comm/communicator.h"
#include "data/dataset.h"
#include "harness/world.h"

namespace shardproof {

class RankFaults;
class Watchdog;

// What a rank of an elastic run (elastic_run.h) is told of one go.
struct Go {
  int number = 0;                  // 0: the first
  bool leaves_after_save = false;  // so that more ranks may join
  Json recovery;                   // the trace's event before the run goes on; null: none
  // Of what was built anew: "start" (communicators, plan), "data" (the loader), "load" (the state),
  // "step" (the first that was done); after each.
  std::function<void(const char* part, std::int64_t step)> done;
};

// False: it left behind a checkpoint, as `go` asks. `go` is null in a run that is not elastic.
bool run_rank(const RunRequest& request, std::shared_ptr<const Dataset> dataset,
              std::unique_ptr<Communicator> backend, Hooks& hooks,
              const RankFaults* faults = nullptr, Watchdog* watchdog = nullptr,
              const Go* go = nullptr);

}  // namespace shardproof

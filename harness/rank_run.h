// rank_run: one rank of a run, whole: its communicator stack, plan, data, checkpoints, trace,
// metrics and trainer, built in this order, and the loop over steps. Threads and MPI processes run
// the same body. Collective from construction on. Thread rule: the rank's thread.
#pragma once

#include <memory>

#include "comm/communicator.h"
#include "data/dataset.h"
#include "harness/world.h"

namespace shardproof {

class RankFaults;
class Watchdog;

void run_rank(const RunRequest& request, std::shared_ptr<const Dataset> dataset,
              std::unique_ptr<Communicator> backend, Hooks& hooks,
              const RankFaults* faults = nullptr, Watchdog* watchdog = nullptr);

}  // namespace shardproof

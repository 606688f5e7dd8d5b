// supervisor: keeps a run alive by restarts (run.restarts): when an attempt fails, the others have
// been ended, and the run goes on from the newest checkpoint that is whole (damaged ones are said
// and set aside), or from its beginning where there is none, after a back-off of
// run.restart_seconds that doubles with each restart (an hour at most). After run.restarts restarts
// it gives up: the last Error, with the history of all attempts.
//
// Never tried again: bad_input, environment, refused, conflict, an exception that is no Error, and
// a damaged checkpoint that the user chose: they would end the same way. Ctrl-C ends the run, also
// in a back-off; launch_deadline is that of all attempts together.
// A number that is not finite is tried again from the newest checkpoint; where no step can be done
// from that, it is set aside for the one before; the same after steps were done ends the run.
// Layout: the same. Where the same rank has died in two attempts running and no step was done in
// the second, that rank is taken for gone: the largest legal layout of one rank less
// (smaller_layout.h); with run.elastic after every death. Without one, the same layout again.
// Faults (run.fault): those of run 0 belong to the first attempt, N/POINT!KIND to the attempt after
// the N-th restart, so that each fires once; the trace's form fires in the first attempt alone.
// The trace and the metrics of restart N lie beside those of the first attempt, in PATH.restart_N.
// TRACE/harness.jsonl: `attempt` (each that failed), `recovery`, `gave_up`.
// Thread rule: as launcher.h; one supervised run per process at a time.
#pragma once

#include <functional>
#include <string>

#include "base/clock.h"
#include "harness/recovery.h"
#include "harness/world.h"

namespace shardproof {

struct Supervision {
  std::function<void(const std::string& line)> say;  // null: stderr
  std::function<void(const Recovery&)> recovered;    // null: nobody listens
  Clock& clock = Clock::real();
};

// Runs it by config.run.backend. False: ended early because it was asked to stop. Error bad_input:
// restarts with a board of faults, or a fault of a restart that there will not be.
bool supervise(const RunRequest& request, const Supervision& supervision = {});

// "" stays "": nothing is written.
std::string path_of_restart(const std::string& path, int number);

// Error bad_input, for what does not restart: run.restarts would be a promise that is not kept.
void refuse_restarts(const Config& config, const std::string& what);

}  // namespace shardproof

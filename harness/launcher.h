// launcher: starts ranks as processes under mpirun (the one beside the libmpi it was built with),
// holds one control socket to each (end of file = death, named), forwards output line by line with
// the rank in front, and ends every child, its mpirun and their process groups on return, on an
// exception and on SIGINT/SIGTERM: no orphan. Everything that waits has a deadline.
// After a death or a failed rank the others get `grace` to end by themselves (their communicators
// say that a peer died), then SIGTERM, then SIGKILL; whatever kills this process, the ranks end
// too. A rank of this machine whose process is stopped is named as such when another one fails.
// Events in the trace: start, stopped, hang, death, deadline, interrupted, exit (one a rank).
// Thread rule: one launch at a time per process (it owns signal handling while it runs).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "harness/last_places.h"

namespace shardproof {

// The first thing that went wrong in a launch.
struct Failure {
  enum class Kind { death, hang, failed };  // failed: the rank says so itself
  Kind kind = Kind::death;
  int rank = -1;              // who died, or who told
  std::string place;          // of a death: the rank's last word, if any
  std::string text;           // "died", or the Error that was told
  double seconds = 0;         // when it was known, after the launch began
  double silent_seconds = 0;  // since the last sign of life: of the dead rank; of any (hang); 0
};

struct LaunchRequest {
  int ranks = 4;
  std::vector<std::string> command;                // argv of a rank
  std::map<std::string, std::string> environment;  // added to the ranks' environment
  std::string hostfile;                            // empty: this machine, oversubscribed
  bool fault_tolerant = true;                      // mpirun --with-ft ulfm where available
  Duration deadline = std::chrono::seconds(120);   // for the whole launch
  Duration connect_deadline = std::chrono::seconds(30);
  Duration grace = std::chrono::seconds(5);  // for the others after a rank has failed
  // The others go on without a rank that died (elastic_run.h), as long as one of them says within
  // `patience` of a death where it is (control.h: at), or ends well.
  bool outlives_deaths = false;
  Duration patience = std::chrono::seconds(60);
  std::string mpirun;           // a path; empty: find_mpirun()
  std::string trace_directory;  // harness.jsonl goes here; empty: none
  // Null: stdout "[rank] line". Rank -1 is mpirun itself, and what ranks print before connecting.
  std::function<void(int rank, const std::string& line)> on_output;
  std::function<void(const Failure&)> on_failure;  // of the first, at once; null: nobody listens
};

struct RankEnd {
  bool connected = false;
  bool finished = false;         // said it was done before its socket closed
  bool died = false;             // its socket closed before
  std::optional<int> exit_code;  // as the rank said; nothing after a signal
  std::string error;             // what a rank reported before failing
};

struct LaunchResult {
  std::vector<RankEnd> ranks;
  std::optional<Death> first_death;
  std::optional<Failure> first_failure;
  std::string hang;  // the verdict that a rank's watchdog found, as an Error's text; empty: none
  bool timed_out = false;
  bool interrupted = false;  // Ctrl-C
  double seconds = 0;
  bool outlives_deaths = false;  // as was asked
  // Every rank finished with exit code 0, in time; of those that outlive deaths, one at least, and
  // the others died.
  bool ok() const;
};

// Error environment when no mpirun is found, or when it ends before a rank has connected (with what
// it said); bad_input for an unreadable hostfile, an empty command, no ranks.
LaunchResult launch(const LaunchRequest& request);

// The one beside the MPI library this was built with, else the first in PATH; empty: there is none.
std::string find_mpirun();

}  // namespace shardproof

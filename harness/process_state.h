// process_state: what the kernel says of processes on this machine: enough to tell a rank that was
// stopped (SIGSTOP, a debugger), which will not answer, from one that is slow. Thread rule: one
// thread. Not covered: processes on other machines.
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"

namespace shardproof {

// The letter of /proc/PID/stat: R, S, D, T (stopped), t (traced), Z; nothing when it is gone.
std::optional<char> process_state(pid_t pid);

class StoppedRanks {
 public:
  explicit StoppedRanks(Duration between_looks = std::chrono::milliseconds(250))
      : between_looks_(between_looks) {}
  void watch(int rank, pid_t pid);
  void forget(int rank);  // it has ended by itself
  // Those that are found stopped and were not before; none too soon after the last look.
  std::vector<int> look();
  // When last looked at; it stays so when the process is gone since.
  bool is_stopped(int rank) const;
  bool is_stopped_now(int rank) const;  // looks
  std::optional<int> first() const;     // the lowest that is stopped

 private:
  struct Watched {
    pid_t pid = 0;
    bool stopped = false;
  };
  std::map<int, Watched> ranks_;
  const Duration between_looks_;
  Duration looked_{};
};

}  // namespace shardproof

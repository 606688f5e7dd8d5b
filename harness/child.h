// child: runs one program in a process group of its own, with a deadline, and keeps what it
// printed. On the deadline the whole group gets SIGKILL. The child dies with its parent. Thread
// rule: any thread. Not for MPI jobs (see launcher.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace shardproof {

struct ChildResult {
  int exit_code = -1;  // 128 + signal after a signal
  bool timed_out = false;
  std::string output;  // stdout and stderr, as they came
};

// Error environment when the program cannot be started.
ChildResult run_child(const std::vector<std::string>& command, Duration deadline,
                      const std::map<std::string, std::string>& environment = {});

std::string own_executable();  // the path of this program

}  // namespace shardproof

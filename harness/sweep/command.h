// command: runs a program with all that it starts until it ends, a deadline, or a reason to stop
// it; then nothing of it is left (process_tree.h). Thread rule: one thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"

namespace shardproof {

struct CommandResult {
  int exit_code = -1;  // 128 + signal after a signal
  bool timed_out = false;
  bool stopped = false;
  int left = 0;        // processes that were killed: when it had ended, or with it
  std::string output;  // the last 64 KiB of stdout and stderr
};

struct CommandLine {
  std::vector<std::string> words;  // the program is looked up in PATH
  std::map<std::string, std::string> environment;
  std::chrono::milliseconds grace{};  // for what it leaves behind to end by itself
};

// `stop` is asked every few milliseconds. Error environment when nothing can be started.
CommandResult run_command(const CommandLine& line, Duration deadline,
                          const std::function<bool()>& stop = {});

}  // namespace shardproof

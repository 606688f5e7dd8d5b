// process_tree: a program and everything it starts, to be ended as a whole. The program runs under
// a small watcher process (in a session of its own, adopting whatever loses its parent), which
// kills every descendant when told to, when the program ends and leaves something behind, or when
// this process dies, however it dies. Guarantee: ended() is true only when no descendant is left.
// Thread rule: one thread. Not covered: processes on other machines (they lose their control socket
// and end by themselves).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shardproof {

class ProcessTree {
 public:
  // `command[0]` is a path. stdin is empty. What the program leaves behind has `grace` to end by
  // itself before it is killed. Error environment when it cannot be started.
  ProcessTree(const std::vector<std::string>& command,
              const std::map<std::string, std::string>& environment,
              std::chrono::milliseconds grace = {});
  ~ProcessTree();  // kills what is left
  ProcessTree(const ProcessTree&) = delete;

  int output() const { return output_; }  // the program's stdout and stderr, non-blocking
  int fd() const { return status_; }      // readable when ended() may have changed
  void ask_to_end();                      // SIGTERM to the program
  void kill_all();                        // SIGKILL to every descendant, until none is left
  bool ended();
  // Of the program, 128 + signal after a signal; nothing while it runs.
  std::optional<int> exit_code() const { return exit_code_; }
  // Processes, the program among them, that were killed for its end or by an order, so far.
  int killed() const { return killed_; }

 private:
  void order(char what);

  pid_t watcher_ = -1;
  int output_ = -1;
  int orders_ = -1;
  int status_ = -1;
  bool ended_ = false;
  std::optional<int> exit_code_;
  int killed_ = 0;
};

}  // namespace shardproof

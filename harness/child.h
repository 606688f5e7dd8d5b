// child: runs one program in a process group of its own, with a deadline, and keeps what it
// printed. On the deadline the whole group gets SIGKILL. The child dies with the thread that
// started it, and so with its parent. Thread rule: any thread, a Child that of its making. Not for
// MPI jobs (see launcher.h).
#pragma once

#include <sys/types.h>

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

// One that is looked at now and then.
class Child {
 public:
  // Error environment when the program cannot be started.
  Child(const std::vector<std::string>& command, Duration deadline,
        const std::map<std::string, std::string>& environment = {});
  ~Child();  // SIGKILL for its group, unless it has ended
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Takes what it has printed; waits for its end at most so long, and not beyond its deadline, at
  // which it is killed. Whether it has ended.
  bool ended(Duration wait = {});
  const ChildResult& result() const;  // SP_CHECK: it has ended
  pid_t pid() const { return pid_; }

 private:
  void read_some();

  pid_t pid_ = -1;
  int out_ = -1;     // -1: at end of file
  int exited_ = -1;  // a pidfd
  Deadline deadline_;
  bool ended_ = false;
  ChildResult result_;
};

std::string own_executable();  // the path of this program

}  // namespace shardproof

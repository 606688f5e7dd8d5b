// stop_signal: Ctrl-C as a wish: while this object lives, the first SIGINT, SIGTERM or SIGHUP (a
// closed terminal) sets a flag: training ends after the current step. A second SIGINT or SIGTERM
// ends the process; a terminal that closes sends SIGHUP more than once. SIGHUP stays ignored where
// it was (nohup). One at a time.
#pragma once

#include <signal.h>

#include <atomic>

namespace shardproof {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  const std::atomic<bool>& flag() const;

 private:
  struct sigaction interrupt_;
  struct sigaction terminate_;
  struct sigaction hangup_;
};

}  // namespace shardproof

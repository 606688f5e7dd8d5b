// stop_signal: Ctrl-C as a wish: while this object lives, the first SIGINT or SIGTERM sets a flag
// (training ends after the current step) and the second one ends the process. One at a time.
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
};

}  // namespace shardproof

// control_watchdog: the watchdog of a rank process: it looks at the others, and is looked at, over
// the control socket. Thread rule: made and destroyed on one thread; its watchdog as it says.
#pragma once

#include <functional>
#include <string>

#include "comm/watchdog.h"
#include "harness/control.h"

namespace shardproof {

class ControlWatchdog {
 public:
  // `note` hears of slow ranks; null: unsaid.
  ControlWatchdog(WatchLimits limits, ControlClient& control,
                  std::function<void(const std::string&)> note = nullptr);
  ~ControlWatchdog();
  ControlWatchdog(const ControlWatchdog&) = delete;

  Watchdog& watchdog() { return watchdog_; }

 private:
  FlightRecords gather();
  void tell(const Error& error);

  ControlClient& control_;
  Watchdog watchdog_;
};

}  // namespace shardproof

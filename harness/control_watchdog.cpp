// control_watchdog: its ways to the other ranks.
#include "harness/control_watchdog.h"

#include <utility>

namespace shardproof {

ControlWatchdog::ControlWatchdog(WatchLimits limits, ControlClient& control,
                                 std::function<void(const std::string&)> note)
    : control_(control),
      watchdog_(limits, {.gather = [this] { return gather(); },
                         .tell = [this](const Error& error) { tell(error); },
                         .note = std::move(note)}) {
  control_.answer({.records =
                       [this] {
                         const FlightRecords here = watchdog_.here();
                         return here.ranks.empty() ? RankRecords() : here.ranks.front();
                       },
                   .verdict = [this](const Error& error) { watchdog_.deliver(error); }});
}

ControlWatchdog::~ControlWatchdog() {
  control_.answer({});
}

FlightRecords ControlWatchdog::gather() {
  auto all = control_.look(Deadline::after(std::chrono::milliseconds(500)));
  return all ? std::move(*all) : watchdog_.here();
}

void ControlWatchdog::tell(const Error& error) {
  control_.verdict(error);
  watchdog_.deliver(error);
}

}  // namespace shardproof

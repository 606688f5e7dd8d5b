// last_places: where each rank last said it was (control socket, `at`), so that a death has a
// place. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "harness/control_server.h"

namespace shardproof {

struct Death {
  int rank = -1;
  double noticed_seconds = 0;  // after the launch began
  double silent_seconds = 0;   // after the rank's last sign of life
  std::string place;           // the rank's last `at` over the control socket, if any
  bool stopped = false;        // its process was found stopped (SIGSTOP): it did not die by itself
};

class LastPlaces {
 public:
  explicit LastPlaces(int ranks) : at_(static_cast<std::size_t>(ranks)) {}

  void hear(int rank, double seconds);                // a sign of life without a place
  void take(const ControlEvent& at, double seconds);  // an event of kind `at`
  double last_heard() const;                          // of any rank
  Death death(int rank, double seconds) const;
  Json death_event(int rank, double seconds) const;  // for the trace's harness.jsonl

 private:
  struct At {
    std::int64_t step = -1;
    std::string phase{};
    double seconds = 0;
  };
  std::vector<At> at_;
};

}  // namespace shardproof

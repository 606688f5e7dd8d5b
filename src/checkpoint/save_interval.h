// save_interval: after which steps a run saves: every so many steps, every so much time, or as
// often as a given mean time between failures makes worth its cost.
// The last rule: an interval of sqrt(2 C M) loses the least, where a save delays training by C and
// failures come every M on average, M much longer than C (J. W. Young, "A first order approximation
// to the optimum checkpoint interval", CACM 17(9), 1974). C is measured: the first save comes after
// the first step, and each later one moves C halfway to its own cost. Thread rule: one owner.
#pragma once

#include <cstdint>

#include "base/clock.h"

namespace shardproof {

struct SaveInterval {
  std::int64_t steps = 0;  // 0: not by steps
  Duration time{};         // 0: not by time
  Duration mtbf{};         // mean time between failures; 0: not by cost
  bool operator==(const SaveInterval&) const = default;
};

Duration young_interval(Duration cost, Duration mtbf);

class SaveTimer {
 public:
  explicit SaveTimer(SaveInterval interval, const Clock& clock = Clock::real());

  // Ranks read clocks of their own: where this is set, one of them decides for all.
  bool needs_clock() const;
  // After a step: `next` is the number of steps done. Several rules: any of them.
  bool due(std::int64_t next) const;
  // A save that made training wait for `cost` has ended.
  void saved(Duration cost);

 private:
  SaveInterval interval_;
  const Clock& clock_;
  Duration last_;  // when the last save ended
  Duration cost_{};
  bool measured_ = false;
};

}  // namespace shardproof

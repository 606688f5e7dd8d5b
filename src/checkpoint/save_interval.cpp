// save_interval: see save_interval.h.
#include "checkpoint/save_interval.h"

#include <cmath>

namespace shardproof {

Duration young_interval(Duration cost, Duration mtbf) {
  const double product =
      2.0 * static_cast<double>(cost.count()) * static_cast<double>(mtbf.count());
  return Duration(static_cast<Duration::rep>(std::sqrt(product)));
}

SaveTimer::SaveTimer(SaveInterval interval, const Clock& clock)
    : interval_(interval), clock_(clock), last_(clock.now()) {}

bool SaveTimer::needs_clock() const {
  return interval_.time > Duration{} || interval_.mtbf > Duration{};
}

bool SaveTimer::due(std::int64_t next) const {
  if (interval_.steps > 0 && next % interval_.steps == 0) return true;
  const Duration since = clock_.now() - last_;
  if (interval_.time > Duration{} && since >= interval_.time) return true;
  if (interval_.mtbf == Duration{}) return false;
  return !measured_ || since >= young_interval(cost_, interval_.mtbf);
}

void SaveTimer::saved(Duration cost) {
  cost_ = measured_ ? (cost_ + cost) / 2 : cost;
  measured_ = true;
  last_ = clock_.now();
}

}  // namespace shardproof

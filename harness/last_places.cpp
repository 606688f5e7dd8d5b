// last_places: the last word of every rank.
#include "harness/last_places.h"

#include <algorithm>

namespace shardproof {

void LastPlaces::hear(int rank, double seconds) {
  at_.at(static_cast<std::size_t>(rank)).seconds = seconds;
}

void LastPlaces::take(const ControlEvent& at, double seconds) {
  at_.at(static_cast<std::size_t>(at.rank)) = {at.step, at.text, seconds};
}

double LastPlaces::last_heard() const {
  double last = 0;
  for (const At& at : at_) last = std::max(last, at.seconds);
  return last;
}

Death LastPlaces::death(int rank, double seconds) const {
  const At& at = at_.at(static_cast<std::size_t>(rank));
  Death death{rank, seconds, seconds - at.seconds, ""};
  if (!at.phase.empty()) death.place = "step " + std::to_string(at.step) + ", " + at.phase;
  return death;
}

Json LastPlaces::death_event(int rank, double seconds) const {
  const At& at = at_.at(static_cast<std::size_t>(rank));
  Json event{{"kind", "death"}, {"rank", rank}, {"seconds", seconds}};
  if (!at.phase.empty()) {
    event["step"] = at.step;
    event["phase"] = at.phase;
    event["silent_seconds"] = seconds - at.seconds;  // since it said so
  }
  return event;
}

}  // namespace shardproof

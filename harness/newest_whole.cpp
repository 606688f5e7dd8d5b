// newest_whole: from the newest back.
#include "harness/newest_whole.h"

#include <fmt/format.h>

#include "train/manifest_facts.h"

namespace shardproof {

std::string newest_whole(Storage& storage,
                         const std::function<void(const std::string& id, const Damage&)>& damaged,
                         std::int64_t steps) {
  const std::vector<ListedCheckpoint> all = survey_checkpoints(storage);
  for (auto each = all.rbegin(); each != all.rend(); ++each) {
    if (each->step > steps) continue;
    const std::vector<Damage> damages = damages_of(storage, each->id);
    if (damages.empty()) return each->id;
    if (damaged) damaged(each->id, damages.front());
  }
  return "";
}

std::string text(const std::string& id, const Damage& damage) {
  return fmt::format("checkpoint {} is damaged: {}: expected {}, found {}", id, damage.where,
                     damage.expected, damage.found);
}

}  // namespace shardproof

// judge: see judge.h.
#include "faults/crash_states/judge.h"

#include <algorithm>

#include "base/error.h"
#include "faults/crash_states/crash_world.h"

namespace shardproof::crash {

Judge::Judge(const std::map<std::string, std::set<std::uint64_t>>& expected,
             std::set<std::string> given)
    : given_(std::move(given)), loaded_(small_state(0)) {
  for (const auto& [id, seeds] : expected) {
    for (const std::uint64_t seed : seeds) {
      // The digest by a save of its own: what a clean disk would say.
      Known known{small_state(seed), {}};
      const auto clean = memory_storage();
      testing::run_world(1, [&](Communicator& comm) {
        known.digest =
            testing::save_small(*clean, comm, id, known.state, facts_of(id)).state_digest;
      });
      known_[id].push_back(std::move(known));
    }
  }
}

void Judge::check(Storage& storage, const std::string& id) {
  const std::vector<Damage> damages = verify_checkpoint(storage, id);
  if (!damages.empty()) {
    throw Error(ErrorKind::corrupt, damages[0].where,
                "expected " + damages[0].expected + ", found " + damages[0].found);
  }
  const Manifest manifest = read_manifest(storage, id);
  if (manifest.facts.step != facts_of(id).step) {
    throw Error(ErrorKind::corrupt, id, "the facts of another checkpoint");
  }
  const bool tensors = !manifest.seeds_alone;
  loaded_.clear();
  if (tensors) load_state(storage, manifest, loaded_.all());
  const auto& known = known_[id];
  const bool found = std::any_of(known.begin(), known.end(), [&](const Known& one) {
    return one.digest == manifest.state_digest() && (!tensors || one.state == loaded_);
  });
  if (!found) throw Error(ErrorKind::corrupt, id, "a state that was never saved under this id");
}

Finding Judge::judge(Storage& storage, const std::set<std::string>& promised) {
  Finding finding;
  try {
    const std::vector<std::string> ids = list_checkpoints(storage);
    for (const std::string& id : ids) check(storage, id);
    for (const std::string& id : promised) {
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
        throw Error(ErrorKind::corrupt, id, "was promised and is gone");
      }
    }
    if (ids.empty()) return finding;
    finding.verdict = given_.contains(ids.back()) ? Verdict::old_one : Verdict::new_one;
  } catch (const Error& error) {
    finding.verdict = Verdict::broken;
    finding.why = error.what();
  }
  return finding;
}

}  // namespace shardproof::crash

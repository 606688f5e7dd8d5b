// set_aside: see set_aside.h.
#include "checkpoint/set_aside.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/load.h"

namespace shardproof {
namespace {

void set_aside(Storage& storage, const std::string& id, const char* why) {
  std::string name;
  for (int n = 0; name.empty() || storage.exists(name); ++n) {
    name = fmt::format("{}.{}-{}.json", id, why, n);
  }
  storage.link(manifest_path(id), name);
  storage.sync_directory("");
  storage.remove(manifest_path(id));
  storage.sync_directory("");
}

}  // namespace

std::vector<std::string> set_aside_damaged(Storage& storage, const std::string& id) {
  const std::vector<std::string> ids = list_checkpoints(storage);
  std::vector<std::string> out;
  const auto found = std::find(ids.begin(), ids.end(), id);
  for (auto later = found; later != ids.end(); ++later) {
    if (*later == id || verify_checkpoint(storage, *later).empty()) continue;
    set_aside(storage, *later, "damaged");
    out.push_back(*later);
  }
  return out;
}

std::string set_aside_from(Storage& storage, std::int64_t step) {
  std::string newest;
  for (const std::string& id : list_checkpoints(storage)) {
    std::int64_t next = 0;
    try {
      next = read_manifest(storage, id).facts.step;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::corrupt) throw;
      continue;
    }
    if (next < step) newest = id;
    if (next >= step) set_aside(storage, id, "spiked");
  }
  return newest;
}

}  // namespace shardproof

// warm_start: see warm_start.h.
#include "train/warm_start.h"

#include <set>
#include <vector>

#include "base/error.h"
#include "checkpoint/agreement.h"
#include "checkpoint/locate.h"
#include "checkpoint/recut.h"
#include "checkpoint/verify.h"
#include "comm/communicator.h"
#include "train/plan_items.h"

namespace shardproof {
namespace {

void refuse_other_parameters(const Plan& plan, const Manifest& manifest) {
  std::set<std::string> names;
  for (const PieceSpec& piece : plan.table().pieces()) names.insert(piece.name);
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.what != "param" || names.contains(entry.name)) continue;
    throw Error(ErrorKind::refused, "warm start from checkpoint " + manifest.id,
                entry.name + ": found in the checkpoint; expected only this model's parameters");
  }
}

Json origin_of(const Manifest& manifest) {
  return Json{{"checkpoint", manifest.id}, {"state_digest", manifest.state_digest().hex()}};
}

}  // namespace

Json origin_of(const std::string& where) {
  if (where.empty()) return Json::object();
  const Located located = locate_checkpoint(where);
  return origin_of(read_manifest(*posix_storage(located.directory, false), located.id));
}

Json load_warm_start(const std::string& where, Plan& plan, Communicator& comm) {
  const auto located = agreed(comm, [&] {
    const Located found = locate_checkpoint(where);
    return Json{found.directory, found.id}.dump();
  });
  const Json place = parse_json(located.front(), "warm start");
  const auto storage = posix_storage(place.at(0).get<std::string>(), false);
  const Manifest manifest = read_whole(*storage, comm, place.at(1).get<std::string>());
  agreed(comm, [&] {
    refuse_other_parameters(plan, manifest);
    std::vector<LoadItem> items;
    for (const char* kind : {"param", "master"}) append_items(items, plan, kind, "param");
    load_recut(*storage, manifest, items);
    return std::string();
  });
  plan.loaded();
  return origin_of(manifest);
}

}  // namespace shardproof

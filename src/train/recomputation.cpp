// recomputation: see recomputation.h.
#include "train/recomputation.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/agreement.h"
#include "checkpoint/locate.h"
#include "data/loader.h"
#include "train/config.h"
#include "train/warm_start.h"

namespace shardproof {
namespace {

Config config_of(const CheckpointFacts& facts) {
  return parse_config_json(facts.config.dump(), "facts.config");
}

}  // namespace

std::optional<std::string> cannot_recompute(const CheckpointFacts& facts) {
  const DataCursor cursor = DataCursor::from_json(facts.cursor, "facts.cursor");
  if (cursor.since > 0) {
    return fmt::format("its mixture got other weights behind sample {}", cursor.since);
  }
  const bool warm = !config_of(facts).training.warm_start.empty();
  if (facts.origin.empty() || (warm && facts.origin.contains("checkpoint"))) return std::nullopt;
  return "the run began with " + facts.origin.dump();
}

void load_beginning(const Manifest& manifest, Plan& plan, Communicator& comm) {
  const std::string where = config_of(manifest.facts).training.warm_start;
  if (where.empty()) return;
  // The very checkpoint: a folder's newest may be another one by now.
  const std::string id = string_member(manifest.facts.origin, "checkpoint", "facts.origin");
  const std::string place =
      fmt::format("resume from checkpoint {}: the weights {} it began with", manifest.id, where);
  Json found;
  try {
    const auto directory = agreed(comm, [&] { return locate_checkpoint(where).directory; });
    found = load_warm_start(directory.front() + "/" + id, plan, comm);
  } catch (const AgreedError& error) {
    throw Error(error.kind(), place, error.what());
  }
  if (found == manifest.facts.origin) return;
  throw Error(ErrorKind::refused, place,
              fmt::format("expected {}, found {}", manifest.facts.origin.dump(), found.dump()));
}

}  // namespace shardproof

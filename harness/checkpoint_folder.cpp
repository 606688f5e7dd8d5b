// checkpoint_folder: the newest manifest against the config of the run that wants to save.
#include "harness/checkpoint_folder.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "checkpoint/load.h"
#include "checkpoint/storage.h"
#include "train/sections.h"
#include "train/warm_start.h"

namespace shardproof {
namespace {

constexpr const char* what_to_do =
    "expected another folder, or shardproof resume to continue that run";

// What differs between the run and the one found; empty when they are one.
std::string difference(const Config& config, const Manifest& manifest) {
  const Config found =
      parse_config_json(manifest.facts.config.dump(), "config of checkpoint " + manifest.id);
  const Json ours = case_json(config), theirs = case_json(found);
  for (const auto& section : ours.items()) {
    for (const auto& key : section.value().items()) {
      const Json& other = theirs.at(section.key()).at(key.key());
      if (key.value() == other) continue;
      return fmt::format("{}.{} is {} there and {} here", section.key(), key.key(), other.dump(),
                         key.value().dump());
    }
  }
  const bool native = config.numerics.reduction == "native";
  if (native && (config.run.layout != found.run.layout || config.run.backend != found.run.backend ||
                 !(config.parallel == found.parallel))) {
    return "native reduction has other bits on another layout, backend or division of work";
  }
  if (origin_of(config.training.warm_start) != manifest.facts.origin) {
    return "the one there began with other weights";
  }
  if (config.data.kind == "synthetic" && config.data.sources.empty()) return "";
  const auto data = open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                                 static_cast<std::uint64_t>(config.training.seed));
  return data->digest().hex() == manifest.facts.data_digest ? "" : "the data are others";
}

}  // namespace

void refuse_other_run(const Config& config) {
  const std::string& folder = config.checkpoint.directory;
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::is_directory(folder, ignored)) return;
  const auto storage = posix_storage(folder, false);
  const std::vector<std::string> ids = list_checkpoints(*storage);
  if (ids.empty()) return;
  Manifest manifest;
  try {
    manifest = read_manifest(*storage, ids.back());
  } catch (const Error& error) {
    throw Error(ErrorKind::conflict, "checkpoint folder " + folder,
                fmt::format("holds {}, which cannot be read ({}); expected another folder",
                            ids.back(), error.what()));
  }
  const std::string text = difference(config, manifest);
  if (text.empty()) return;
  throw Error(ErrorKind::conflict, "checkpoint folder " + folder,
              fmt::format("holds {} of another run ('{}'): {}; {}", manifest.id,
                          manifest.facts.run_line, text, what_to_do));
}

void refuse_any_run(const std::string& folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return;
  const std::vector<std::string> ids = list_checkpoints(*posix_storage(folder, false));
  if (ids.empty()) return;
  throw Error(ErrorKind::conflict, "checkpoint folder " + folder,
              fmt::format("holds {}; a folder takes the checkpoints of one Case: expected another "
                          "one for a new Case",
                          ids.back()));
}

}  // namespace shardproof

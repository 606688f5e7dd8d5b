// retention: see retention.h. A removal: link the manifest to its record (ID.removed.json), sync;
// remove the manifest, sync; remove the shards that the record names; remove the record.
#include "checkpoint/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/load.h"

namespace shardproof {
namespace {

constexpr std::string_view record_suffix = ".removed.json";
constexpr std::uint64_t max_record_bytes = 1u << 30;

std::string record_path(const std::string& id) {
  return id + std::string(record_suffix);
}

std::string parent_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

std::string text_of(Storage& storage, const std::string& path) {
  return read_text(storage, path, max_record_bytes);
}

// The files of a manifest that nobody can reach any more, then the record itself.
void remove_shards(Storage& storage, const std::vector<ShardFileRef>& files,
                   const std::string& record) {
  std::set<std::string> folders;
  for (const ShardFileRef& file : files) {
    storage.remove(file.file);
    folders.insert(parent_of(file.file));
  }
  for (const std::string& folder : folders) {
    // Somebody else's file in it stays, and the folder with it.
    if (storage.exists(folder) && storage.list(folder).empty()) storage.remove_directory(folder);
  }
  storage.sync_directory("");  // the record goes after what it records
  storage.remove(record);
}

// A crash lies between: the manifest may still be there (then the removal did not begin), be gone,
// or be that of a later save of the same id.
void finish_removal(Storage& storage, const std::string& id) {
  const std::string record = record_path(id), manifest = manifest_path(id);
  const std::string text = text_of(storage, record);
  if (storage.exists(manifest) && text_of(storage, manifest) == text) {
    storage.remove(record);
    return;
  }
  // The manifest's name may come back after another crash, unless its absence is synced.
  storage.sync_directory("");
  remove_shards(storage, Manifest::parse(text, record).files, record);
}

// Of a checkpoint whose files are known.
void remove_known(Storage& storage, const std::string& id, const std::vector<ShardFileRef>& files) {
  storage.link(manifest_path(id), record_path(id));
  storage.sync_directory("");
  storage.remove(manifest_path(id));
  storage.sync_directory("");
  remove_shards(storage, files, record_path(id));
}

const SavedStep* newest_with_tensors(std::span<const SavedStep> saved) {
  const SavedStep* found = nullptr;
  for (const SavedStep& each : saved) {
    if (!each.seeds_alone) found = &each;
  }
  return found;
}

// Why nothing may go, if the checkpoints that are to outlive the others are not whole.
std::string not_whole(Storage& storage, std::span<const SavedStep> saved) {
  std::set<std::string> must_be{saved.back().id};
  if (const SavedStep* tensors = newest_with_tensors(saved)) must_be.insert(tensors->id);
  for (const std::string& id : must_be) {
    const std::vector<Damage> damages = verify_checkpoint(storage, id);
    if (damages.empty()) continue;
    return fmt::format("checkpoint {}, the newest, is damaged: {}: expected {}, found {}", id,
                       damages[0].where, damages[0].expected, damages[0].found);
  }
  return "";
}

}  // namespace

std::vector<std::string> outdated(std::span<const SavedStep> saved, const Retention& retention) {
  std::vector<std::string> ids;
  if (retention.last <= 0) return ids;
  const auto last = static_cast<std::size_t>(retention.last);
  const SavedStep* tensors = newest_with_tensors(saved);
  for (std::size_t i = 0; i + last < saved.size(); ++i) {
    const bool milestone = retention.every > 0 && saved[i].step % retention.every == 0;
    if (!milestone && &saved[i] != tensors) ids.push_back(saved[i].id);
  }
  return ids;
}

std::vector<std::string> finish_removals(Storage& storage) {
  std::vector<std::string> unreadable;
  for (const std::string& name : storage.list("")) {
    if (!name.ends_with(record_suffix)) continue;
    const std::string id = name.substr(0, name.size() - record_suffix.size());
    try {
      check_checkpoint_id(id);
      finish_removal(storage, id);
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::io) throw;
      unreadable.push_back(name);
    }
  }
  return unreadable;
}

void remove_checkpoint(Storage& storage, const std::string& id) {
  remove_known(storage, id, read_manifest(storage, id).files);
}

PruneReport prune(Storage& storage, const Retention& retention,
                  const std::set<std::string>& in_use) {
  PruneReport report;
  finish_removals(storage);
  std::vector<SavedStep> saved;
  std::map<std::string, std::vector<ShardFileRef>> files;
  for (ListedCheckpoint& listed : survey_checkpoints(storage)) {
    if (listed.unreadable) {
      if (listed.unreadable->kind() == ErrorKind::io) throw Error(*listed.unreadable);
      continue;
    }
    saved.push_back({listed.id, listed.step, listed.seeds_alone});
    files[listed.id] = std::move(listed.files);
  }
  std::vector<std::string> ids = outdated(saved, retention);
  std::erase_if(ids, [&](const std::string& id) { return in_use.contains(id); });
  if (ids.empty()) return report;
  report.kept_because = not_whole(storage, saved);
  if (!report.kept_because.empty()) return report;
  for (const std::string& id : ids) {
    remove_known(storage, id, files.at(id));
    report.removed.push_back(id);
  }
  return report;
}

}  // namespace shardproof

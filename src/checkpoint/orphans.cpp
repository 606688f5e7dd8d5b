// orphans: see orphans.h.
#include "checkpoint/orphans.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "checkpoint/manifest.h"

namespace shardproof {
namespace {

constexpr std::string_view middle = ".shards-";
constexpr std::size_t nonce_digits = 16;
constexpr std::uint64_t max_text_bytes = 1u << 30;
constexpr std::string_view taken = "the shards of this save were removed\n";

struct Orphan {
  std::string folder;
  std::string id;
  std::string draft;  // as save.cpp names it
};

std::optional<Orphan> parse(const std::string& folder) {
  const std::size_t at = folder.rfind(middle);
  if (at == std::string::npos) return std::nullopt;
  const std::string id = folder.substr(0, at), nonce = folder.substr(at + middle.size());
  const bool hex = nonce.size() == nonce_digits &&
                   nonce.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!hex) return std::nullopt;
  try {
    check_checkpoint_id(id);
  } catch (const Error&) {
    return std::nullopt;
  }
  return Orphan{folder, id, id + ".manifest-" + nonce + ".tmp"};
}

// A manifest, a record of a removal, or a manifest that was set aside.
bool may_name(const std::string& file, const std::string& id) {
  return file.starts_with(id + ".") && file.ends_with(".json");
}

// Whether some manifest of its id names the folder, or cannot be read and so may.
bool may_be_named(Storage& storage, const Orphan& orphan) {
  for (const std::string& name : storage.list("")) {
    if (!may_name(name, orphan.id)) continue;
    try {
      const Manifest manifest = Manifest::parse(read_text(storage, name, max_text_bytes), name);
      const auto inside = [&](const ShardFileRef& file) {
        return file.file.starts_with(orphan.folder + "/");
      };
      if (std::ranges::any_of(manifest.files, inside)) return true;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::io && storage.exists(name)) throw;
      return true;
    }
  }
  return false;
}

// From here on its writer cannot commit, unless it has.
void stop_writer(Storage& storage, const Orphan& orphan) {
  try {
    const std::unique_ptr<File> file = storage.create(orphan.draft);
    file->write(std::as_bytes(std::span(taken)));
    file->sync();
    file->close();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::conflict) throw;
    // Its draft, which it makes once: without it there is nothing to link. Or taken already.
    const bool ours = storage.size(orphan.draft) == taken.size() &&
                      read_text(storage, orphan.draft, taken.size()) == taken;
    if (!ours) storage.remove(orphan.draft);
  }
  storage.sync_directory("");
}

}  // namespace

OrphanReport remove_orphans(Storage& storage,
                            const std::function<bool(const std::string& folder)>& old_enough) {
  OrphanReport report;
  for (const std::string& name : storage.list("")) {
    const std::optional<Orphan> orphan = parse(name);
    if (!orphan || may_be_named(storage, *orphan)) continue;
    if (!old_enough(name)) {
      report.kept.push_back(name);
      continue;
    }
    stop_writer(storage, *orphan);
    if (may_be_named(storage, *orphan)) continue;  // committed since we looked
    for (const std::string& file : storage.list(name)) storage.remove(name + "/" + file);
    storage.remove_directory(name);
    report.removed.push_back(name);
  }
  if (!report.removed.empty()) storage.sync_directory("");
  return report;
}

}  // namespace shardproof

// load: see load.h. Blocks are verified in a staging buffer; what fails never reaches the caller's
// memory.
#include "checkpoint/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "checkpoint/reshard.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

constexpr std::uint64_t max_manifest_bytes = 1u << 30;
constexpr std::string_view manifest_suffix = ".manifest.json";
// Read, hashed and copied at once, 512 kB of float32: what was read is in the cache until it is
// copied, which costs less than to read past the cache into the caller's memory and hash it there.
constexpr std::int64_t staged_blocks = 128;

// Where a checkpoint stands among others whose manifest cannot be read: by its name, or last, so
// that "the newest" runs into it rather than past it.
std::int64_t step_by_name(const std::string& id) {
  constexpr std::string_view prefix = "step-";
  const std::string digits = id.starts_with(prefix) ? id.substr(prefix.size()) : "";
  const bool number = !digits.empty() && digits.size() <= 18 &&
                      digits.find_first_not_of("0123456789") == std::string::npos;
  return number ? std::stoll(digits) : std::numeric_limits<std::int64_t>::max();
}

ListedCheckpoint look_at(Storage& storage, const std::string& id) {
  ListedCheckpoint listed;
  listed.id = id;
  try {
    Manifest manifest = read_manifest(storage, id);
    listed.step = manifest.facts.step;
    listed.seeds_alone = manifest.seeds_alone.has_value();
    listed.files = std::move(manifest.files);
  } catch (const Error& error) {
    listed.step = step_by_name(id);
    listed.unreadable = error;
  }
  return listed;
}

void read_into(Storage& storage, const ManifestEntry& entry, const BlockRead& read,
               const LoadItem& item, std::vector<std::byte>& staging) {
  const std::size_t block_bytes = block_elements * size_of(item.dtype);
  auto* out =
      static_cast<std::byte*>(item.data) + static_cast<std::size_t>(read.at) * size_of(item.dtype);
  for (std::int64_t done = 0; done < read.blocks; done += staged_blocks) {
    const std::int64_t count = std::min(staged_blocks, read.blocks - done);
    const BlockRun run = block_run(entry, read.first + done, count);
    staging.resize(run.end - run.begin);
    read_blocks(storage, entry, read.first + done, count, staging);
    std::memcpy(out + static_cast<std::size_t>(done) * block_bytes, staging.data(), staging.size());
  }
}

}  // namespace

std::vector<ListedCheckpoint> survey_checkpoints(Storage& storage) {
  std::vector<ListedCheckpoint> found;
  for (const std::string& name : storage.list("")) {
    if (!name.ends_with(manifest_suffix)) continue;
    const std::string id = name.substr(0, name.size() - manifest_suffix.size());
    try {
      check_checkpoint_id(id);
    } catch (const Error&) {
      continue;  // no name that save_checkpoint gives
    }
    found.push_back(look_at(storage, id));
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.id) < std::tie(b.step, b.id);
  });
  return found;
}

std::vector<std::string> list_checkpoints(Storage& storage) {
  std::vector<std::string> ids;
  for (ListedCheckpoint& listed : survey_checkpoints(storage)) {
    ids.push_back(std::move(listed.id));
  }
  return ids;
}

Manifest read_manifest(Storage& storage, const std::string& id) {
  check_checkpoint_id(id);
  const std::string path = manifest_path(id);
  if (!storage.exists(path)) {
    throw Error(ErrorKind::bad_input, "checkpoint " + id, fmt::format("there is no {}", path));
  }
  Manifest manifest = Manifest::parse(read_text(storage, path, max_manifest_bytes), path);
  if (manifest.id != id) {
    throw Error(ErrorKind::corrupt, path,
                fmt::format("is the manifest of '{}'; expected '{}'", manifest.id, id));
  }
  return manifest;
}

void load_state(Storage& storage, const Manifest& manifest, std::span<const LoadItem> items) {
  std::vector<std::vector<BlockRead>> reads;
  reads.reserve(items.size());
  for (const LoadItem& item : items) reads.push_back(reads_of(manifest, item));
  std::vector<std::byte> staging;
  for (std::size_t i = 0; i < items.size(); ++i) {
    for (const BlockRead& read : reads[i]) {
      read_into(storage, manifest.entries[read.entry], read, items[i], staging);
    }
  }
}

}  // namespace shardproof

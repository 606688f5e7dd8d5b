// load: see load.h. Blocks are verified in a staging buffer; what fails never reaches the caller's
// memory.
#include "checkpoint/load.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "base/error.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

constexpr std::uint64_t max_manifest_bytes = 1u << 30;
constexpr std::string_view manifest_suffix = ".manifest.json";

// Where a checkpoint stands among others. One whose manifest cannot be read keeps its place by its
// name, or stands last, so that "the newest" runs into it rather than past it.
std::int64_t step_of(Storage& storage, const std::string& id) {
  try {
    return read_manifest(storage, id).facts.step;
  } catch (const Error&) {
    constexpr std::string_view prefix = "step-";
    const std::string digits = id.starts_with(prefix) ? id.substr(prefix.size()) : "";
    const bool number = !digits.empty() && digits.size() <= 18 &&
                        digits.find_first_not_of("0123456789") == std::string::npos;
    return number ? std::stoll(digits) : std::numeric_limits<std::int64_t>::max();
  }
}

std::string label(const LoadItem& item) {
  return fmt::format("{}/{} piece {} [{}:{}]", item.piece.name, item.what, item.piece.piece,
                     item.range.lo, item.range.hi);
}

std::string describe(Dtype dtype, int pieces, const Shape& global, const Box& box) {
  return Json{{"dtype", name(dtype)},
              {"pieces", pieces},
              {"shape", global},
              {"box", {box.offsets, box.shape}}}
      .dump();
}

void check_item(const LoadItem& item) {
  const std::int64_t count = item.piece.elements();
  const ElementRange range = item.range;
  const bool aligned =
      range.lo % block_elements == 0 && (range.hi % block_elements == 0 || range.hi == count);
  const bool inside = 0 <= range.lo && range.lo <= range.hi && range.hi <= count;
  if (!inside || !aligned || (range.size() > 0 && item.data == nullptr)) {
    throw Error(ErrorKind::bad_input, label(item),
                fmt::format("expected room for a run of whole blocks of {} within {} elements",
                            block_elements, count));
  }
}

// The entries of the item's piece, ascending; Error refused unless they are the same tensor.
std::span<const ManifestEntry> entries_of(const Manifest& manifest, const LoadItem& item) {
  const auto wanted = std::tie(item.piece.name, item.what, item.piece.piece);
  const auto key = [](const ManifestEntry& entry) {
    return std::tie(entry.name, entry.what, entry.piece);
  };
  const auto begin =
      std::partition_point(manifest.entries.begin(), manifest.entries.end(),
                           [&](const ManifestEntry& entry) { return key(entry) < wanted; });
  const auto end = std::find_if(begin, manifest.entries.end(),
                                [&](const ManifestEntry& entry) { return key(entry) != wanted; });
  const std::string place = fmt::format("checkpoint {}: {}", manifest.id, label(item));
  if (begin == end) throw Error(ErrorKind::refused, place, "the checkpoint holds no such piece");
  const std::string expected =
      describe(item.dtype, item.piece.pieces, item.piece.global_shape, item.piece.box);
  const std::string found = describe(begin->dtype, begin->pieces, begin->global_shape, begin->box);
  if (expected != found) {
    throw Error(ErrorKind::refused, place, fmt::format("expected {}, found {}", expected, found));
  }
  return {begin, end};
}

void load_item(Storage& storage, const Manifest& manifest, const LoadItem& item,
               std::vector<std::byte>& staging) {
  const std::size_t element = size_of(item.dtype);
  for (const ManifestEntry& entry : entries_of(manifest, item)) {
    const std::int64_t lo = std::max(entry.range.lo, item.range.lo);
    const std::int64_t hi = std::min(entry.range.hi, item.range.hi);
    for (std::int64_t at = lo; at < hi; at += chunk_blocks * block_elements) {
      const std::int64_t count = std::min(hi - at, chunk_blocks * block_elements);
      staging.resize(static_cast<std::size_t>(count) * element);
      read_blocks(storage, entry, (at - entry.range.lo) / block_elements,
                  (count + block_elements - 1) / block_elements, staging);
      std::memcpy(static_cast<std::byte*>(item.data) +
                      static_cast<std::size_t>(at - item.range.lo) * element,
                  staging.data(), staging.size());
    }
  }
}

}  // namespace

std::vector<std::string> list_checkpoints(Storage& storage) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const std::string& name : storage.list("")) {
    if (!name.ends_with(manifest_suffix)) continue;
    const std::string id = name.substr(0, name.size() - manifest_suffix.size());
    try {
      check_checkpoint_id(id);
    } catch (const Error&) {
      continue;  // no name that save_checkpoint gives
    }
    found.emplace_back(step_of(storage, id), id);
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> ids;
  for (auto& [step, id] : found) ids.push_back(std::move(id));
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
  for (const LoadItem& item : items) {
    check_item(item);
    if (item.range.size() > 0) entries_of(manifest, item);
  }
  std::vector<std::byte> staging;
  for (const LoadItem& item : items) {
    if (item.range.size() > 0) load_item(storage, manifest, item, staging);
  }
}

}  // namespace shardproof

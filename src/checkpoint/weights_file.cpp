// weights_file: see weights_file.h.
#include "checkpoint/weights_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "checkpoint/recut.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

constexpr const char* weight = "param";

// Every parameter as one piece, in name order, and its dtype.
std::vector<LoadItem> whole_parameters(const Manifest& manifest) {
  std::map<std::string, LoadItem> by_name;
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.what != weight) continue;
    const PieceSpec whole = cut(entry.name, entry.global_shape, -1, 1).front();
    by_name.try_emplace(entry.name,
                        LoadItem{weight, whole, {0, whole.elements()}, entry.dtype, nullptr});
  }
  std::vector<LoadItem> items;
  for (auto& [name, item] : by_name) items.push_back(item);
  return items;
}

std::size_t byte_count(const LoadItem& item) {
  return static_cast<std::size_t>(item.range.size()) * size_of(item.dtype);
}

void write_weights(Storage& storage, const Manifest& manifest, std::span<LoadItem> items,
                   File& file, WeightsFile& written) {
  std::vector<SafetensorsEntry> entries;
  for (const LoadItem& item : items) {
    entries.push_back({item.piece.name, item.dtype, item.piece.global_shape, 0, 0});
  }
  Sha256 hash;
  const auto put = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    hash.update(bytes.data(), bytes.size());
    written.bytes += bytes.size();
  };
  const std::string head = safetensors_head(
      entries, {{"format", "pt"}, {"state_digest", manifest.state_digest().hex()}});
  put(std::as_bytes(std::span(head)));
  std::vector<std::byte> buffer;
  for (LoadItem& item : items) {
    buffer.resize(byte_count(item));
    item.data = buffer.data();
    load_recut(storage, manifest, std::span(&item, 1));
    put(buffer);
    ++written.tensors;
  }
  file.sync();
  file.close();
  written.sha256 = hash.finish();
}

}  // namespace

WeightsFile export_weights(Storage& storage, const Manifest& manifest, Storage& out,
                           const std::string& path) {
  require_tensors(manifest);
  std::vector<LoadItem> items = whole_parameters(manifest);
  if (items.empty()) {
    throw Error(ErrorKind::refused, "checkpoint " + manifest.id, "it holds no weights");
  }
  if (out.exists(path)) throw Error(ErrorKind::conflict, path, "exists already");
  const std::string draft = path + ".tmp";
  WeightsFile written;
  const std::unique_ptr<File> file = out.create(draft);
  try {
    write_weights(storage, manifest, items, *file, written);
    out.link(draft, path);
  } catch (...) {
    out.remove(draft);
    throw;
  }
  out.remove(draft);
  out.sync_directory("");
  return written;
}

SaveReport import_weights(Storage& in, const std::string& path, Storage& storage,
                          Communicator& comm, const std::string& id) {
  check_checkpoint_id(id);
  const SafetensorsHeader header = read_shard_header(in, path);
  std::vector<std::byte> bytes(in.size(path));
  in.read(path, 0, bytes);
  std::vector<SaveItem> items;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.dtype != Dtype::f32) {
      throw Error(ErrorKind::refused, fmt::format("{}: '{}'", path, entry.name),
                  fmt::format("expected F32, found {}", name(entry.dtype)));
    }
    const PieceSpec whole = cut(entry.name, entry.shape, -1, 1).front();
    items.push_back({weight,
                     whole,
                     {0, whole.elements()},
                     entry.dtype,
                     bytes.data() + header.data_begin + entry.begin});
  }
  CheckpointFacts facts;
  facts.origin = Json{{"weights_file", path},
                      {"sha256", Sha256().update(bytes.data(), bytes.size()).finish().hex()}};
  return save_checkpoint(storage, comm, id, facts, items);
}

bool weights_alone(const Manifest& manifest) {
  if (manifest.seeds_alone) return false;
  return std::all_of(manifest.entries.begin(), manifest.entries.end(),
                     [](const ManifestEntry& entry) { return entry.what == weight; });
}

}  // namespace shardproof

// shard_file: see shard_file.h.
#include "checkpoint/shard_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "checkpoint/block_digests.h"

namespace shardproof {
namespace {

void check_item(const SaveItem& item, bool has_data) {
  const ElementRange range = item.range;
  if (!is_block_run(item.piece, range) || (range.size() > 0 && has_data && item.data == nullptr)) {
    throw Error(ErrorKind::bad_input,
                fmt::format("{}/{} piece {} [{}:{}]", item.piece.name, item.what, item.piece.piece,
                            range.lo, range.hi),
                fmt::format("expected the bytes of a run of whole blocks of {} within {} elements",
                            block_elements, item.piece.elements()));
  }
}

ManifestEntry entry_of(const SaveItem& item, const std::string& path) {
  ManifestEntry entry;
  entry.name = item.piece.name;
  entry.what = item.what;
  entry.piece = item.piece.piece;
  entry.pieces = item.piece.pieces;
  entry.global_shape = item.piece.global_shape;
  entry.box = item.piece.box;
  entry.dtype = item.dtype;
  entry.range = item.range;
  entry.file = path;
  entry.tensor = entry.key();
  return entry;
}

// A whole piece keeps its shape for other readers; a part of one is a flat run.
Shape tensor_shape(const SaveItem& item) {
  const bool whole = item.range == ElementRange{0, item.piece.elements()};
  return whole ? item.piece.box.shape : Shape{item.range.size()};
}

// Appends to the file (if there is one), and collects its digest.
class ShardStream {
 public:
  ShardStream(Storage* storage, const std::string& path)
      : file_(storage ? storage->create(path) : nullptr) {}

  void put(std::span<const std::byte> bytes, std::span<const Digest> digests) {
    for (const Digest& digest : digests) digest_.add(digest);
    if (file_) file_->write(bytes);
    bytes_ += bytes.size();
  }
  std::uint64_t bytes() const { return bytes_; }
  Digest finish() {
    if (file_) {
      file_->sync();
      file_->close();
    }
    return digest_.finish();
  }

 private:
  std::unique_ptr<File> file_;
  FileDigest digest_;
  std::uint64_t bytes_ = 0;
};

void put_item(ShardStream& stream, const SaveItem& item, std::size_t index,
              const ChunkSource& source, ManifestEntry& entry) {
  const std::size_t element = size_of(item.dtype);
  const std::size_t block_bytes = block_elements * element;
  const std::size_t all = static_cast<std::size_t>(item.range.size()) * element;
  const auto* data = static_cast<const std::byte*>(item.data);
  entry.begin = stream.bytes();
  entry.blocks.reserve(all / block_bytes + 1);
  for (std::size_t at = 0; at < all; at += chunk_bytes(item)) {
    const std::size_t bytes = std::min(chunk_bytes(item), all - at);
    const auto chunk = source ? source(index, at, bytes) : std::span(data + at, bytes);
    const std::vector<Digest> digests = block_digests(chunk, block_bytes);
    entry.blocks.insert(entry.blocks.end(), digests.begin(), digests.end());
    stream.put(chunk, digests);
  }
  entry.end = stream.bytes();
}

}  // namespace

bool is_block_run(const PieceSpec& piece, ElementRange range) {
  const std::int64_t count = piece.elements();
  const bool aligned =
      range.lo % block_elements == 0 && (range.hi % block_elements == 0 || range.hi == count);
  return aligned && 0 <= range.lo && range.lo <= range.hi && range.hi <= count;
}

std::size_t chunk_bytes(const SaveItem& item) {
  return static_cast<std::size_t>(chunk_blocks * block_elements) * size_of(item.dtype);
}

WrittenShard write_shard(Storage* storage, const std::string& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SaveItem> items, const ChunkSource& source) {
  WrittenShard shard;
  shard.file.file = path;
  std::vector<const SaveItem*> kept;
  std::vector<SafetensorsEntry> tensors;
  for (const SaveItem& item : items) {
    check_item(item, !source);
    if (item.range.size() == 0) continue;
    kept.push_back(&item);
    shard.entries.push_back(entry_of(item, path));
    tensors.push_back({shard.entries.back().key(), item.dtype, tensor_shape(item), 0, 0});
  }
  ShardStream stream(storage, path);
  const std::string head = safetensors_head(tensors, metadata);
  shard.file.head = head.size();
  shard.file.head_sha256 = sha256(head);
  stream.put(std::as_bytes(std::span(head)), {&shard.file.head_sha256, 1});
  for (std::size_t i = 0; i < kept.size(); ++i) {
    put_item(stream, *kept[i], i, source, shard.entries[i]);
  }
  shard.file.bytes = stream.bytes();
  shard.file.digest = stream.finish();
  return shard;
}

SafetensorsHeader read_shard_header(Storage& storage, const std::string& path) {
  constexpr std::uint64_t prefix_bytes = 8;
  const std::uint64_t bytes = storage.size(path);
  std::vector<std::byte> head(std::min(prefix_bytes, bytes));
  storage.read(path, 0, head);
  if (head.size() == prefix_bytes) {
    std::uint64_t length = 0;
    for (std::size_t i = prefix_bytes; i-- > 0;) {
      length = length << 8 | std::to_integer<std::uint64_t>(head[i]);
    }
    // A longer header is refused by the parser, from its first bytes alone.
    if (length <= max_header_bytes && length <= bytes - prefix_bytes) {
      head.resize(prefix_bytes + length);
      storage.read(path, 0, head);
    }
  }
  return parse_safetensors(head, bytes, path);
}

BlockRun block_run(const ManifestEntry& entry, std::int64_t first, std::int64_t blocks) {
  const std::uint64_t block_bytes = block_elements * size_of(entry.dtype);
  const std::uint64_t begin = entry.begin + static_cast<std::uint64_t>(first) * block_bytes;
  return {begin, std::min(entry.end, begin + static_cast<std::uint64_t>(blocks) * block_bytes)};
}

void read_blocks(Storage& storage, const ManifestEntry& entry, std::int64_t first,
                 std::int64_t blocks, std::span<std::byte> out) {
  const std::size_t block_bytes = block_elements * size_of(entry.dtype);
  storage.read(entry.file, block_run(entry, first, blocks).begin, out);
  const std::vector<Digest> found = block_digests(out, block_bytes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Digest& expected = entry.blocks.at(static_cast<std::size_t>(first) + i);
    if (found[i] == expected) continue;
    const BlockRun bad = block_run(entry, first + static_cast<std::int64_t>(i), 1);
    throw Error(
        ErrorKind::corrupt,
        fmt::format("{}: {}, bytes [{}, {})", entry.file, entry.label(), bad.begin, bad.end),
        fmt::format("expected sha256 {}, found {}", expected.hex(), found[i].hex()));
  }
}

}  // namespace shardproof

// shard_file: one rank's tensors as a safetensors file. Writing takes one digest of the head and
// one of each 1,024-element block, chunk by chunk as they go out (manifest.h: no byte is hashed
// twice); reading verifies every block before it is given away. Thread rule: one call per file at a
// time.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "checkpoint/manifest.h"
#include "checkpoint/save.h"
#include "checkpoint/storage.h"

namespace shardproof {

struct WrittenShard {
  ShardFileRef file;
  std::vector<ManifestEntry> entries;  // in file order
};

// Where bytes come from that are not at SaveItem::data: called for each chunk of the items that are
// kept, in order, each once. The bytes are valid until the next call.
using ChunkSource = std::function<std::span<const std::byte>(std::size_t item, std::size_t offset,
                                                             std::size_t bytes)>;

// Whether the range is a run of whole blocks of the piece.
bool is_block_run(const PieceSpec& piece, ElementRange range);

// Writes, syncs and closes `path`. Items with an empty range are left out. A null storage computes
// entries and digests and writes nothing. Error bad_input for an item that is no run of whole
// blocks.
WrittenShard write_shard(Storage* storage, const std::string& path,
                         const std::map<std::string, std::string>& metadata,
                         std::span<const SaveItem> items, const ChunkSource& source = {});

// The checked header of a safetensors file, whoever wrote it. Error corrupt | io.
SafetensorsHeader read_shard_header(Storage& storage, const std::string& path);

// Bytes of `blocks` whole blocks of an entry, from its block `first` on.
struct BlockRun {
  std::uint64_t begin = 0;  // bytes in the file
  std::uint64_t end = 0;
};
BlockRun block_run(const ManifestEntry& entry, std::int64_t first, std::int64_t blocks);

// Reads the blocks that `out` has room for (exactly block_run's bytes) and compares every digest.
// Error corrupt naming entry and byte range.
void read_blocks(Storage& storage, const ManifestEntry& entry, std::int64_t first,
                 std::int64_t blocks, std::span<std::byte> out);

constexpr std::int64_t chunk_blocks = 256;  // read or written at once: 1 MiB of fp32
std::size_t chunk_bytes(const SaveItem& item);

}  // namespace shardproof

// reshard: see reshard.h.
#include "checkpoint/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <tuple>

#include "base/error.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

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
  if (!is_block_run(item.piece, item.range) || (item.range.size() > 0 && item.data == nullptr)) {
    throw Error(ErrorKind::bad_input, label(item),
                fmt::format("expected room for a run of whole blocks of {} within {} elements",
                            block_elements, item.piece.elements()));
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

}  // namespace

std::vector<BlockRead> reads_of(const Manifest& manifest, const LoadItem& item) {
  check_item(item);
  std::vector<BlockRead> reads;
  if (item.range.size() == 0) return reads;
  for (const ManifestEntry& entry : entries_of(manifest, item)) {
    const ElementRange both = intersect(entry.range, item.range);
    if (both.size() <= 0) continue;
    reads.push_back({static_cast<std::size_t>(&entry - manifest.entries.data()),
                     (both.lo - entry.range.lo) / block_elements,
                     (both.size() + block_elements - 1) / block_elements, both.lo - item.range.lo});
  }
  return reads;
}

}  // namespace shardproof

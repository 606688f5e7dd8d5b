// recut: see recut.h.
#include "checkpoint/recut.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/reshard.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

// The pieces of one parameter that a checkpoint holds, as items that load_state takes.
std::vector<LoadItem> stored_pieces(const Manifest& manifest, const LoadItem& wanted) {
  std::vector<LoadItem> out;
  for (const ManifestEntry& entry : manifest.entries) {
    if (entry.name != wanted.piece.name || entry.what != wanted.what) continue;
    if (!out.empty() && out.back().piece.piece == entry.piece) continue;
    PieceSpec piece;
    piece.name = entry.name;
    piece.piece = entry.piece;
    piece.pieces = entry.pieces;
    piece.global_shape = entry.global_shape;
    piece.box = entry.box;
    out.push_back({entry.what, piece, {0, piece.elements()}, entry.dtype, nullptr});
  }
  const std::string place =
      fmt::format("checkpoint {}: {}/{}", manifest.id, wanted.piece.name, wanted.what);
  if (out.empty()) throw Error(ErrorKind::refused, place, "the checkpoint holds no such parameter");
  const auto describe = [](const Shape& shape, Dtype dtype) {
    return fmt::format("{} [{}]", name(dtype), fmt::join(shape, ","));
  };
  const std::string expected = describe(wanted.piece.global_shape, wanted.dtype);
  const std::string found = describe(out[0].piece.global_shape, out[0].dtype);
  if (expected != found) {
    throw Error(ErrorKind::refused, place, fmt::format("expected {}, found {}", expected, found));
  }
  return out;
}

// The bytes of the whole piece that `item` is of.
std::vector<std::byte> recut_piece(Storage& storage, const Manifest& manifest,
                                   const LoadItem& item) {
  const std::size_t element = size_of(item.dtype);
  std::vector<std::byte> out(static_cast<std::size_t>(item.piece.elements()) * element);
  std::vector<std::byte> stored;
  std::int64_t copied = 0;
  for (LoadItem& source : stored_pieces(manifest, item)) {
    const std::vector<SharedRun> runs = shared_runs(source.piece.box, item.piece.box);
    if (runs.empty()) continue;
    stored.resize(static_cast<std::size_t>(source.range.size()) * element);
    source.data = stored.data();
    load_state(storage, manifest, std::span(&source, 1));
    for (const SharedRun& run : runs) {
      std::memcpy(out.data() + static_cast<std::size_t>(run.to) * element,
                  stored.data() + static_cast<std::size_t>(run.from) * element,
                  static_cast<std::size_t>(run.count) * element);
      copied += run.count;
    }
  }
  SP_CHECK_EQ(copied, item.piece.elements());  // the pieces of a manifest tile their parameter
  return out;
}

}  // namespace

std::vector<SharedRun> shared_runs(const Box& a, const Box& b) {
  SP_CHECK_EQ(a.shape.size(), b.shape.size());
  const std::size_t dims = a.shape.size();
  Shape lo(dims), hi(dims);
  for (std::size_t d = 0; d < dims; ++d) {
    lo[d] = std::max(a.offsets[d], b.offsets[d]);
    hi[d] = std::min(a.offsets[d] + a.shape[d], b.offsets[d] + b.shape[d]);
    if (lo[d] >= hi[d]) return {};
  }
  const auto position = [&](const Box& box, const Shape& index) {
    std::int64_t at = 0;
    for (std::size_t d = 0; d < dims; ++d) at = at * box.shape[d] + index[d] - box.offsets[d];
    return at;
  };
  std::vector<SharedRun> runs;
  Shape index = lo;
  const std::int64_t length = dims == 0 ? 1 : hi[dims - 1] - lo[dims - 1];
  for (;;) {
    runs.push_back({position(a, index), position(b, index), length});
    std::size_t d = dims == 0 ? 0 : dims - 1;  // rows: all dims but the last count up
    while (d > 0 && ++index[d - 1] == hi[d - 1]) {
      index[d - 1] = lo[d - 1];
      --d;
    }
    if (d == 0) return runs;
  }
}

void load_recut(Storage& storage, const Manifest& manifest, std::span<const LoadItem> items) {
  require_tensors(manifest);
  std::vector<std::byte> whole;
  const LoadItem* last = nullptr;  // whose piece `whole` is
  for (const LoadItem& item : items) {
    if (item.range.size() == 0) continue;
    const bool same = last != nullptr && last->what == item.what &&
                      last->piece.name == item.piece.name && last->piece.box == item.piece.box;
    if (!same) whole = recut_piece(storage, manifest, item);
    last = &item;
    const std::size_t element = size_of(item.dtype);
    std::memcpy(item.data, whole.data() + static_cast<std::size_t>(item.range.lo) * element,
                static_cast<std::size_t>(item.range.size()) * element);
  }
}

}  // namespace shardproof

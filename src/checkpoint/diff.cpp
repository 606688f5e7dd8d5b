// diff: which pieces of two checkpoints differ, and where first. See load.h.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <tuple>

#include "base/check.h"
#include "checkpoint/load.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

using PieceKey = std::tuple<std::string, std::string, int>;

struct PieceRuns {
  std::span<const ManifestEntry> runs;

  std::string tensor() const {
    const ManifestEntry& entry = runs.front();
    return Json{{"dtype", name(entry.dtype)},
                {"pieces", entry.pieces},
                {"shape", entry.global_shape},
                {"box", {entry.box.offsets, entry.box.shape}}}
        .dump();
  }
  std::int64_t blocks() const {
    return (runs.back().range.hi + block_elements - 1) / block_elements;
  }
  // The run that holds a block of the piece.
  const ManifestEntry& run_of(std::int64_t block) const {
    const auto found = std::find_if(runs.begin(), runs.end(), [&](const ManifestEntry& entry) {
      return block * block_elements < entry.range.hi;
    });
    SP_CHECK(found != runs.end(), "a block past the end of its piece");
    return *found;
  }
  const Digest& digest(std::int64_t block) const {
    const ManifestEntry& entry = run_of(block);
    return entry.blocks.at(static_cast<std::size_t>(block - entry.range.lo / block_elements));
  }
  std::vector<std::byte> read(Storage& storage, std::int64_t block) const {
    const ManifestEntry& entry = run_of(block);
    const std::int64_t first = block - entry.range.lo / block_elements;
    const BlockRun bytes = block_run(entry, first, 1);
    std::vector<std::byte> out(bytes.end - bytes.begin);
    read_blocks(storage, entry, first, 1, out);
    return out;
  }
};

std::map<PieceKey, PieceRuns> pieces_of(const Manifest& manifest) {
  std::map<PieceKey, PieceRuns> pieces;
  const std::span<const ManifestEntry> all(manifest.entries);
  for (std::size_t begin = 0; begin < all.size();) {
    const auto key = [&](std::size_t i) {
      return std::tie(all[i].name, all[i].what, all[i].piece);
    };
    std::size_t end = begin + 1;
    while (end < all.size() && key(end) == key(begin)) ++end;
    pieces[key(begin)] = {all.subspan(begin, end - begin)};
    begin = end;
  }
  return pieces;
}

// The bit pattern, most significant digit first.
std::string bits(std::span<const std::byte> element) {
  std::string text;
  for (std::size_t i = element.size(); i-- > 0;) {
    text += fmt::format("{:02x}", std::to_integer<unsigned>(element[i]));
  }
  return text;
}

std::string label(const PieceKey& key) {
  return fmt::format("{}/{} piece {}", std::get<0>(key), std::get<1>(key), std::get<2>(key));
}

// Appends the first difference of a piece that both sides have, if there is one.
void diff_piece(Storage& a, const PieceRuns& left, Storage& b, const PieceRuns& right,
                const PieceKey& key, std::vector<StateDifference>& out) {
  if (left.tensor() != right.tensor()) {
    out.push_back({label(key), -1, left.tensor(), right.tensor()});
    return;
  }
  for (std::int64_t block = 0; block < left.blocks(); ++block) {
    if (left.digest(block) == right.digest(block)) continue;
    const std::vector<std::byte> x = left.read(a, block);
    const std::vector<std::byte> y = right.read(b, block);
    const std::size_t size = size_of(left.runs.front().dtype);
    std::size_t at = 0;
    while (std::memcmp(&x[at], &y[at], size) == 0) at += size;
    out.push_back({label(key), block * block_elements + static_cast<std::int64_t>(at / size),
                   bits(std::span(x).subspan(at, size)), bits(std::span(y).subspan(at, size))});
    return;
  }
}

}  // namespace

std::vector<StateDifference> diff_checkpoints(Storage& a, const Manifest& left, Storage& b,
                                              const Manifest& right) {
  if (left.seeds_alone || right.seeds_alone) {
    const std::string ours = left.state_digest().hex(), theirs = right.state_digest().hex();
    if (ours == theirs) return {};
    return {{"state digest", -1, ours, theirs}};
  }
  const auto lefts = pieces_of(left);
  const auto rights = pieces_of(right);
  std::vector<StateDifference> out;
  for (const auto& [key, piece] : lefts) {
    const auto other = rights.find(key);
    if (other == rights.end()) {
      out.push_back({label(key), -1, "present", "absent"});
    } else {
      diff_piece(a, piece, b, other->second, key, out);
    }
  }
  for (const auto& [key, piece] : rights) {
    if (!lefts.contains(key)) out.push_back({label(key), -1, "absent", "present"});
  }
  return out;
}

}  // namespace shardproof

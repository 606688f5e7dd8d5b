// piece: bounds, cuts and the arena. Pure arithmetic on shapes; no tensor is touched.
#include "base/piece.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"

namespace shardproof {
namespace {

std::string title(const std::string& name, int piece) {
  return name + " piece " + std::to_string(piece);
}

bool before(const PieceSpec& a, const PieceSpec& b) {
  return std::tie(a.name, a.piece) < std::tie(b.name, b.piece);
}

}  // namespace

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    SP_CHECK_LE(0, extent);
    SP_CHECK(!__builtin_mul_overflow(count, extent, &count), "shape overflows 63 bits");
  }
  return count;
}

std::int64_t share_bound(std::int64_t items, int parts, int part) {
  SP_CHECK_LE(0, items);
  SP_CHECK(0 <= part && part <= parts && parts > 0,
           std::to_string(part) + " of " + std::to_string(parts));
  __extension__ using Wide = __int128;
  return static_cast<std::int64_t>(Wide{items} * part / parts);
}

std::vector<PieceSpec> cut(const std::string& name, const Shape& shape, int dim, int pieces) {
  SP_CHECK_LE(1, pieces);
  SP_CHECK(pieces == 1 || (0 <= dim && dim < static_cast<int>(shape.size())),
           name + ": dim " + std::to_string(dim) + " of " + std::to_string(shape.size()));
  std::vector<PieceSpec> out;
  for (int piece = 0; piece < pieces; ++piece) {
    PieceSpec spec;
    spec.name = name;
    spec.piece = piece;
    spec.pieces = pieces;
    spec.global_shape = shape;
    spec.box = {Shape(shape.size(), 0), shape};
    if (pieces > 1) {
      spec.dim = dim;
      spec.box.offsets[dim] = share_bound(shape[dim], pieces, piece);
      spec.box.shape[dim] = share_bound(shape[dim], pieces, piece + 1) - spec.box.offsets[dim];
    }
    out.push_back(std::move(spec));
  }
  return out;
}

ElementRange intersect(ElementRange a, ElementRange b) {
  return {std::max(a.lo, b.lo), std::min(a.hi, b.hi)};
}

PieceTable::PieceTable(std::vector<PieceSpec> pieces) : pieces_(std::move(pieces)) {
  std::sort(pieces_.begin(), pieces_.end(), before);
  offsets_.push_back(0);
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const PieceSpec& spec = pieces_[i];
    SP_CHECK(i == 0 || before(pieces_[i - 1], spec), title(spec.name, spec.piece) + " twice");
    const std::int64_t begin = offsets_.back();
    const std::int64_t end = begin + spec.elements();
    for (std::int64_t block = 0; block < spec.blocks(); ++block) {
      const std::int64_t lo = begin + block * block_elements;
      blocks_.push_back({static_cast<int>(i), block, {lo, std::min(lo + block_elements, end)}});
    }
    offsets_.push_back(end);
  }
}

int PieceTable::index(const std::string& name, int piece) const {
  PieceSpec wanted;
  wanted.name = name;
  wanted.piece = piece;
  const auto found = std::lower_bound(pieces_.begin(), pieces_.end(), wanted, before);
  SP_CHECK(found != pieces_.end() && !before(wanted, *found), "no " + title(name, piece));
  return static_cast<int>(found - pieces_.begin());
}

ElementRange PieceTable::range(int piece_index) const {
  SP_CHECK(0 <= piece_index && piece_index < static_cast<int>(pieces_.size()),
           "piece index " + std::to_string(piece_index));
  return {offsets_[piece_index], offsets_[piece_index + 1]};
}

ElementRange PieceTable::share(int ranks, int rank) const {
  const auto bound = [&](int r) {
    const auto starts_before = [](const Block& block, std::int64_t at) {
      return block.range.lo < at;
    };
    const auto found = std::lower_bound(blocks_.begin(), blocks_.end(),
                                        share_bound(elements(), ranks, r), starts_before);
    return found == blocks_.end() ? elements() : found->range.lo;
  };
  return {bound(rank), bound(rank + 1)};
}

std::vector<std::int64_t> PieceTable::share_counts(int ranks) const {
  std::vector<std::int64_t> counts;
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(share(ranks, rank).size());
  return counts;
}

}  // namespace shardproof

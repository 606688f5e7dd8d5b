// piece: the logical units of a model. A parameter is cut once, by the Case, into tensor pieces;
// a piece, flattened row-major inside its box, has a fixed grid of 1,024-element blocks (the last
// is short, never padded; a block never spans two pieces). Blocks in (name, piece, block) order are
// the unit of ownership, digest, norm sum and reshard range, on every layout.
// Guarantee: a PieceTable lays all pieces end to end in (name, piece) order ("the arena"), so a
// contiguous run of blocks is a contiguous run of elements. Thread rule: immutable after build.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace shardproof {

using Shape = std::vector<std::int64_t>;

std::int64_t element_count(const Shape& shape);  // 1 for a scalar; SP_CHECK on overflow

// A rectangular part of a global tensor: offsets[i] <= index[i] < offsets[i] + shape[i].
struct Box {
  Shape offsets;
  Shape shape;
  bool operator==(const Box&) const = default;
};

constexpr std::int64_t block_elements = 1024;

struct PieceSpec {
  std::string name;  // global parameter name, such as "blocks.0.attn.q.weight"
  int piece = 0;     // 0 <= piece < pieces
  int pieces = 1;    // how many pieces the parameter was cut into
  int dim = -1;      // the dim it was cut along; -1 when whole
  Shape global_shape;
  Box box;  // this piece within global_shape

  std::int64_t elements() const { return element_count(box.shape); }
  std::int64_t blocks() const { return (elements() + block_elements - 1) / block_elements; }
};

// Balanced bounds: piece i of n items cut into k is [n*i/k, n*(i+1)/k).
std::int64_t share_bound(std::int64_t items, int parts, int part);

// Cuts a parameter along `dim` into `pieces` (unequal where it does not divide).
std::vector<PieceSpec> cut(const std::string& name, const Shape& shape, int dim, int pieces);

struct ElementRange {
  std::int64_t lo = 0;
  std::int64_t hi = 0;
  std::int64_t size() const { return hi - lo; }
  bool operator==(const ElementRange&) const = default;
};

// What two ranges share; its size is negative or 0 when they share nothing.
ElementRange intersect(ElementRange a, ElementRange b);

// One block of the arena.
struct Block {
  int piece_index = 0;     // into PieceTable::pieces()
  std::int64_t block = 0;  // within the piece
  ElementRange range;      // within the arena
};

class PieceTable {
 public:
  PieceTable() = default;
  explicit PieceTable(std::vector<PieceSpec> pieces);  // sorts; SP_CHECK: no piece twice

  const std::vector<PieceSpec>& pieces() const { return pieces_; }
  int index(const std::string& name, int piece) const;  // SP_CHECK: exists
  ElementRange range(int piece_index) const;            // within the arena
  std::int64_t elements() const { return offsets_.empty() ? 0 : offsets_.back(); }
  const std::vector<Block>& blocks() const { return blocks_; }

  // Contiguous shares over `ranks`, in whole blocks: share r ends before the first block that
  // starts at or after elements x (r + 1) / ranks, so that every share is within one block of the
  // exact one. Empty shares are legal.
  ElementRange share(int ranks, int rank) const;
  std::vector<std::int64_t> share_counts(int ranks) const;

 private:
  std::vector<PieceSpec> pieces_;
  std::vector<std::int64_t> offsets_;  // pieces + 1 entries
  std::vector<Block> blocks_;
};

}  // namespace shardproof

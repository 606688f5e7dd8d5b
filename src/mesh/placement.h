// placement: how a global tensor lies on the mesh. A record says the global shape, the local shape
// and, per axis, whether the tensor is replicated, sharded along a dim, or a partial sum.
// check_placement compares a record with the tensor that is really there.
#pragma once

#include <string>
#include <vector>

#include "base/piece.h"
#include "mesh/layout.h"

namespace shardproof {

struct AxisPlacement {
  enum class Kind { replicate, shard, partial };
  Axis axis = Axis::data;
  Kind kind = Kind::replicate;
  int dim = -1;    // of a shard
  int pieces = 0;  // of a shard: dim is cut into these first, whole pieces to a rank; 0: elements
};

struct Placement {
  std::string name;
  Shape global_shape;
  Shape local_shape;
  std::vector<AxisPlacement> axes;  // axes not listed replicate

  // "blocks.0.attn.q.weight [32,32] -> [16,32] tp:shard(0) dp:replicate"; "shard(0, 4 pieces)"
  std::string print() const;
};

// The local box of `placement` for a rank; SP_CHECK: no dim sharded twice, dims in range. Balanced
// bounds where the size, or the number of pieces, does not divide.
Box local_box(const Placement& placement, const Layout& layout, int world_rank);
// Error mismatch when the record's local shape, the box and the real shape disagree.
void check_placement(const Placement& placement, const Layout& layout, int world_rank,
                     const Shape& real_shape);

}  // namespace shardproof

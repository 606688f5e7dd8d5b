// mesh: a layout over real ranks: one sub-communicator per axis, split from the world in one fixed
// order (the same on all ranks). An axis of degree 1 has a group of one.
// Thread rule: belongs to its rank's thread, as its communicators do.
#pragma once

#include <array>
#include <memory>

#include "comm/communicator.h"
#include "mesh/layout.h"

namespace shardproof {

class Mesh {
 public:
  // Collective over `world`. Error bad_input when world.size() != layout.world().
  Mesh(Communicator& world, const Layout& layout);

  const Layout& layout() const { return layout_; }
  const Coordinates& at() const { return at_; }
  Communicator& world() { return world_; }
  Communicator& axis(Axis axis) { return *axes_[static_cast<std::size_t>(axis)]; }

 private:
  Communicator& world_;
  Layout layout_;
  Coordinates at_;
  std::array<std::unique_ptr<Communicator>, axis_count> axes_;
};

}  // namespace shardproof

// mesh: splits the world once per axis, in the order of Axis.
#include "mesh/mesh.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shardproof {
namespace {

// The rank's place among the groups of an axis: the same on its members and on nobody else.
int color_of(const Layout& layout, Axis axis, int rank) {
  const auto all = groups(layout, axis);
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (const int member : all[i]) {
      if (member == rank) return static_cast<int>(i);
    }
  }
  return -1;
}

}  // namespace

Mesh::Mesh(Communicator& world, const Layout& layout) : world_(world), layout_(layout) {
  if (world.size() != layout.world()) {
    throw Error(ErrorKind::bad_input, fmt::format("layout {}", layout.print()),
                fmt::format("there are {} ranks; expected {}", world.size(), layout.world()));
  }
  at_ = coordinates(layout, world.rank());
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto axis = static_cast<Axis>(i);
    axes_[i] = world.split(color_of(layout, axis, world.rank()), at_.at(axis),
                           std::string(short_name(axis)), default_deadline(world));
  }
}

}  // namespace shardproof

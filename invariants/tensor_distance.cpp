// tensor_distance: per element the worst copy's distance, then the norm over all.
#include "invariants/tensor_distance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace shardproof {

double roundoff(Dtype dtype) {
  if (dtype == Dtype::f32) return 0x1p-24;
  return dtype == Dtype::bf16 ? 0x1p-9 : 0;
}

TensorDistance distance_from(const std::vector<HeldBytes>& entries, const GlobalTensor& whole) {
  TensorDistance out;
  constexpr double absent = -1;
  const std::size_t whole_width = size_of(whole.dtype);
  std::vector<double> distance(whole.present.size(), absent);
  double largest = 0;
  for (const HeldBytes& each : entries) {
    const TensorFile::Entry& entry = each.entry;
    if (entry.place.global_shape != whole.shape) {
      out.problem = fmt::format("shape [{}]", fmt::join(entry.place.global_shape, ","));
      return out;
    }
    const std::size_t width = size_of(entry.dtype);
    for_each_stretch(entry.place, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(global + i);
        const double value =
            element_value(entry.dtype, &entry.bytes[static_cast<std::size_t>(local + i) * width]);
        double off = std::abs(value - element_value(whole.dtype, &whole.bytes[at * whole_width]));
        if (std::isnan(off)) off = std::numeric_limits<double>::infinity();
        distance[at] = std::max(distance[at], off);
        if (off <= largest) continue;
        largest = off;
        out.farthest = global + i;
        out.found = value;
        out.rank = each.rank;
      }
    });
  }
  for (std::size_t at = 0; at < distance.size(); ++at) {
    if (distance[at] == absent) {
      out.problem = fmt::format("nothing at global element {}", at);
      return out;
    }
    out.norm += distance[at] * distance[at];
  }
  out.norm = std::sqrt(out.norm);
  return out;
}

double norm_of(const GlobalTensor& tensor) {
  const std::size_t width = size_of(tensor.dtype);
  double squares = 0;
  for (std::size_t i = 0; i < tensor.present.size(); ++i) {
    const double value = element_value(tensor.dtype, &tensor.bytes[i * width]);
    squares += value * value;
  }
  return std::sqrt(squares);
}

}  // namespace shardproof

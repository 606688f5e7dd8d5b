// tensor_distance: per element the worst copy's distance, then the norm over all.
#include "invariants/tensor_distance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "invariants/compare_elements.h"
#include "invariants/tensor_windows.h"

namespace shardproof {
namespace {

constexpr double absent = -1;

// A window of the truth in double.
struct TruthWindow {
  Window bytes;
  std::vector<double> values;
  Dtype dtype;
};

// One side, window by window.
class SideDistance {
 public:
  SideDistance(const std::vector<HeldBytes>& entries, const Shape& shape)
      : entries_(entries), walk_(entries) {
    for (const HeldBytes& each : entries) {
      if (each.entry.place.global_shape == shape || !out_.problem.empty()) continue;
      out_.problem = fmt::format("shape [{}]", fmt::join(each.entry.place.global_shape, ","));
    }
  }

  void add(const TruthWindow& truth) {
    if (!out_.problem.empty()) return;
    distance_.assign(truth.values.size(), absent);
    walk_.until(truth.bytes.hi(), [&](std::size_t i, const Stretch& each, const std::byte* bytes) {
      add_stretch(truth, entries_[i], each, bytes);
    });
    for (std::size_t at = 0; at < distance_.size(); ++at) {
      if (distance_[at] == absent) {
        out_.problem = fmt::format("nothing at global element {}",
                                   truth.bytes.lo() + static_cast<std::int64_t>(at));
        return;
      }
      squares_ += distance_[at] * distance_[at];
    }
  }

  TensorDistance finish() {
    out_.norm = std::sqrt(squares_);
    return out_;
  }

 private:
  void add_stretch(const TruthWindow& truth, const HeldBytes& held, const Stretch& each,
                   const std::byte* bytes) {
    const auto count = static_cast<std::size_t>(each.count);
    const auto from = static_cast<std::size_t>(each.global - truth.bytes.lo());
    values_.resize(count);
    element_values(held.entry.dtype, bytes, values_);
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
      double off = std::abs(values_[i] - truth.values[from + i]);
      if (std::isnan(off)) off = std::numeric_limits<double>::infinity();
      distance_[from + i] = std::max(distance_[from + i], off);
      worst = std::max(worst, off);
    }
    if (worst <= largest_) return;
    for (std::size_t i = 0; i < count; ++i) {
      const double off = std::abs(values_[i] - truth.values[from + i]);
      if (off <= largest_) continue;  // false for a NaN
      largest_ = std::isnan(off) ? std::numeric_limits<double>::infinity() : off;
      out_.farthest = each.global + static_cast<std::int64_t>(i);
      out_.expected = truth.values[from + i];
      out_.found = values_[i];
      out_.expected_bits = element_hex(truth.dtype, truth.bytes.at(out_.farthest));
      out_.found_bits = element_hex(held.entry.dtype, bytes + i * size_of(held.entry.dtype));
      out_.rank = held.rank;
      if (largest_ >= worst) return;
    }
  }

  const std::vector<HeldBytes>& entries_;
  TensorWalk walk_;
  std::vector<double> distance_, values_;
  double squares_ = 0;
  double largest_ = 0;
  TensorDistance out_;
};

}  // namespace

double roundoff(Dtype dtype) {
  if (dtype == Dtype::f64) return 0x1p-53;
  if (dtype == Dtype::f32) return 0x1p-24;
  return dtype == Dtype::bf16 ? 0x1p-9 : 0;
}

Distances distances_from(const std::vector<HeldBytes>& truth,
                         std::span<const std::vector<HeldBytes>* const> sides) {
  check_alike(truth);
  const TensorPlace& place = truth.front().entry.place;
  const std::int64_t count = element_count(place.global_shape);
  std::vector<std::unique_ptr<SideDistance>> distances;
  for (const std::vector<HeldBytes>* each : sides) {
    distances.push_back(std::make_unique<SideDistance>(*each, place.global_shape));
  }
  TensorWalk walk(truth);
  TruthWindow window{{}, {}, truth.front().entry.dtype};
  double squares = 0;
  for (std::int64_t lo = 0; lo < count; lo += window_elements) {
    const std::int64_t hi = std::min(lo + window_elements, count);
    window.bytes.read(walk, lo, hi, window.dtype);
    if (const std::int64_t hole = window.bytes.first_absent(lo, hi); hole < hi) {
      throw Error(ErrorKind::corrupt, "tensor " + place.name,
                  fmt::format("global element {} is on no rank of the side to compare with", hole));
    }
    window.values.resize(static_cast<std::size_t>(hi - lo));
    element_values(window.dtype, window.bytes.at(lo), window.values);
    for (const double value : window.values) squares += value * value;
    for (const auto& each : distances) each->add(window);
  }
  Distances out{std::sqrt(squares), {}};
  for (const auto& each : distances) out.sides.push_back(each->finish());
  return out;
}

double norm_of(const std::vector<HeldBytes>& truth) {
  return distances_from(truth, {}).norm;
}

void tell_farthest(Difference& address, const TensorDistance& distance,
                   const std::vector<HeldBytes>& truth, const std::vector<HeldBytes>& found) {
  if (distance.farthest < 0) return;
  address.rank = distance.rank;
  for (const HeldBytes& each : found) {
    const auto number = element_in(each.entry.place, distance.farthest);
    if (each.rank != distance.rank || !number) continue;
    address.piece = each.entry.place.piece;
    address.element = *number;
  }
  tell_element(address, truth, found, distance.farthest);
  const auto text = [](double value, Dtype dtype, const std::string& bits) {
    return fmt::format("{:.9g} ({} {})", value, name(dtype), bits);
  };
  address.left = text(distance.expected, truth.front().entry.dtype, distance.expected_bits);
  address.right = text(distance.found, found.front().entry.dtype, distance.found_bits);
}

}  // namespace shardproof

// subject_update: see subject_update.h.
#include "invariants/subject_update.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "invariants/tensor_windows.h"

namespace shardproof {
namespace {

// Empty when the entries are parts of one tensor of this shape.
std::string unlike(const std::vector<HeldBytes>& entries, const Shape& shape) {
  for (const HeldBytes& each : entries) {
    if (each.entry.place.global_shape != shape) {
      return fmt::format("shape [{}]", fmt::join(each.entry.place.global_shape, ","));
    }
    if (each.entry.dtype != entries.front().entry.dtype) return "two dtypes";
  }
  return "";
}

// One side at one step, window by window, in double.
class Values {
 public:
  explicit Values(const std::vector<HeldBytes>& entries)
      : walk_(entries), dtype_(entries.front().entry.dtype) {}

  // The first element of [lo, hi) that no rank holds; hi when all are held.
  std::int64_t read(std::int64_t lo, std::int64_t hi) {
    window_.read(walk_, lo, hi, dtype_);
    const std::int64_t hole = window_.first_absent(lo, hi);
    values_.assign(static_cast<std::size_t>(hi - lo), 0);
    if (hole == hi) element_values(dtype_, window_.at(lo), values_);
    return hole;
  }
  double at(std::size_t i) const { return values_[i]; }

 private:
  TensorWalk walk_;
  Dtype dtype_;
  Window window_;
  std::vector<double> values_;
};

class Update {
 public:
  Update(const UpdateSide& side, const Shape& shape) : problem_(unlike(side.before, shape)) {
    if (problem_.empty()) problem_ = unlike(side.after, shape);
    if (!problem_.empty()) return;
    before_ = std::make_unique<Values>(side.before);
    after_ = std::make_unique<Values>(side.after);
  }

  void read(std::int64_t lo, std::int64_t hi) {
    if (!problem_.empty()) return;
    const std::int64_t hole = std::min(before_->read(lo, hi), after_->read(lo, hi));
    if (hole < hi) problem_ = fmt::format("nothing at global element {}", hole);
  }
  double at(std::size_t i) const { return after_->at(i) - before_->at(i); }
  double param(std::size_t i) const { return before_->at(i); }
  const std::string& problem() const { return problem_; }

 private:
  std::string problem_;
  std::unique_ptr<Values> before_, after_;
};

}  // namespace

UpdateDistances update_distances(const UpdateSide& truth, const std::vector<UpdateSide>& sides) {
  const Shape& shape = truth.before.front().entry.place.global_shape;
  const std::int64_t count = element_count(shape);
  Update exact(truth, shape);
  std::vector<std::unique_ptr<Update>> updates;
  for (const UpdateSide& each : sides) updates.push_back(std::make_unique<Update>(each, shape));
  UpdateDistances out;
  out.sides.assign(sides.size(), 0);
  double norm = 0, param = 0, largest = 0;
  for (std::int64_t lo = 0; lo < count && exact.problem().empty(); lo += window_elements) {
    const std::int64_t hi = std::min(lo + window_elements, count);
    exact.read(lo, hi);
    if (!exact.problem().empty()) break;
    const auto elements = static_cast<std::size_t>(hi - lo);
    for (std::size_t i = 0; i < elements; ++i) {
      norm += exact.at(i) * exact.at(i);
      param += exact.param(i) * exact.param(i);
    }
    for (std::size_t side = 0; side < updates.size(); ++side) {
      Update& update = *updates[side];
      update.read(lo, hi);
      if (!update.problem().empty()) continue;
      for (std::size_t i = 0; i < elements; ++i) {
        double off = std::abs(update.at(i) - exact.at(i));
        if (!(off <= std::numeric_limits<double>::max())) {
          off = std::numeric_limits<double>::infinity();  // a NaN too
        }
        out.sides[side] += off * off;
        if (side > 0 || off <= largest) continue;
        largest = off;
        out.farthest = lo + static_cast<std::int64_t>(i);
        out.expected = exact.at(i);
        out.found = update.at(i);
      }
    }
  }
  out.norm = std::sqrt(norm);
  out.param = std::sqrt(param);
  for (double& each : out.sides) each = std::sqrt(each);
  for (const auto& each : updates) out.problems.push_back(each->problem());
  out.problems.push_back(exact.problem());
  return out;
}

}  // namespace shardproof

// compare_errors: per element the worst copy's distance from the truth, then 2-norms per tensor.
#include "invariants/compare_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "invariants/tensor_grid.h"

namespace shardproof {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Unit roundoff as the public format declares it; 0 for a dtype without a declared policy.
double roundoff(Dtype dtype) {
  if (dtype == Dtype::f32) return 0x1p-24;
  return dtype == Dtype::bf16 ? 0x1p-9 : 0;
}

// A tensor's distances from the truth, by global element.
struct Errors {
  double norm = 0;
  std::int64_t farthest = -1;  // global element; -1: none is off
  double found = 0;            // the value there
  int rank = -1;
  std::string problem;  // why there is no distance; empty otherwise
};

Errors errors_of(const std::vector<HeldBytes>& entries, const GlobalTensor& truth) {
  Errors out;
  constexpr double absent = -1;
  const std::size_t truth_width = size_of(truth.dtype);
  std::vector<double> distance(truth.present.size(), absent);
  double largest = 0;
  for (const HeldBytes& each : entries) {
    const TensorFile::Entry& entry = each.entry;
    if (entry.place.global_shape != truth.shape) {
      out.problem = fmt::format("shape [{}]", fmt::join(entry.place.global_shape, ","));
      return out;
    }
    const std::size_t width = size_of(entry.dtype);
    for_each_stretch(entry.place, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) {
        const auto at = static_cast<std::size_t>(global + i);
        const double value =
            element_value(entry.dtype, &entry.bytes[static_cast<std::size_t>(local + i) * width]);
        double off = std::abs(value - element_value(truth.dtype, &truth.bytes[at * truth_width]));
        if (std::isnan(off)) off = infinite;
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

// What a reference is off; empty when it does not hold the tensor whole.
std::optional<double> reference_error(const BytesMap& reference, const std::string& name,
                                      const GlobalTensor& truth) {
  const auto held = reference.find(name);
  if (held == reference.end()) return std::nullopt;
  const Errors errors = errors_of(held->second, truth);
  if (!errors.problem.empty() || !std::isfinite(errors.norm)) return std::nullopt;
  return errors.norm;
}

double allowed_error(const std::vector<double>& references, double least, Dtype truth) {
  double allowed = least;
  if (!references.empty()) allowed = std::max(least, references.front());
  const double widest = truth == Dtype::f64 ? native_gradients().bound * allowed : infinite;
  for (const double each : references) allowed = std::max(allowed, std::min(each, widest));
  return allowed;
}

void keep_worst(ErrorComparison& out, double ratio, const Difference& address) {
  if (std::isnan(ratio)) ratio = infinite;
  if (!out.worst.tensor.empty() && ratio <= out.ratio) return;
  out.ratio = ratio;
  out.worst = address;
}

void judge_tensor(const std::vector<HeldBytes>& entries, const GlobalTensor& truth, double allowed,
                  Difference address, ErrorComparison& out) {
  const Errors errors = errors_of(entries, truth);
  if (!errors.problem.empty()) {
    address.left = fmt::format("shape [{}], whole", fmt::join(truth.shape, ","));
    address.right = errors.problem;
    return keep_worst(out, infinite, address);
  }
  if (errors.farthest >= 0) {
    const Located at = locate(entries, errors.farthest);
    address.rank = errors.rank;
    address.piece = at.piece;
    address.element = at.element;
    const auto index = static_cast<std::size_t>(errors.farthest) * size_of(truth.dtype);
    address.left =
        fmt::format("{:.9g} ({}; the tensor within {:.2g})",
                    element_value(truth.dtype, &truth.bytes[index]), name(truth.dtype), allowed);
    address.right = fmt::format("{:.9g} (the tensor off by {:.2g})", errors.found, errors.norm);
  }
  // Equal to a truth of zeros where the reference is too: 0 / 0.
  keep_worst(out, errors.norm == 0 ? 0 : errors.norm / allowed, address);
}

}  // namespace

const Policy& native_gradients() {
  static const Policy policy{
      Policy::Kind::error_model, 4,
      "the backend adds in an order of its own and nothing is cut beyond the layout, so the bits "
      "depend on the layout; clean programs were measured at up to 2.4 of the reference's own "
      "error, wrong ones at 1.8e4 and more"};
  return policy;
}

const Policy& native_loss() {
  static const Policy policy{
      Policy::Kind::relative_norm, 64 * 0x1p-24,
      "a mean over thousands of fp32 logarithms: rounding of a few u; a wrong factor, count or "
      "micro-batch is far beyond it"};
  return policy;
}

ErrorComparison compare_errors(const Trace& truth, std::span<const Trace* const> references,
                               const Trace& found, std::int64_t step, const std::string& what) {
  ErrorComparison out;
  const BytesMap exact = bytes_at(truth, step, what), judged = bytes_at(found, step, what);
  std::vector<BytesMap> others;
  for (const Trace* each : references) others.push_back(bytes_at(*each, step, what));
  if (exact.empty() || judged.empty()) {
    out.incomparable = fmt::format("no bytes of {} at step {} were captured on {} side", what, step,
                                   exact.empty() ? "the float64" : "the judged");
    return out;
  }
  std::set<std::string> names;
  for (const BytesMap* map : {&exact, &judged}) {
    for (const auto& [name, entries] : *map) names.insert(name);
  }
  for (const std::string& name : names) {
    Difference address{step, what, name, -1, -1, -1, "", ""};
    const auto want = exact.find(name), have = judged.find(name);
    if (want == exact.end() || have == judged.end()) {
      address.left = want == exact.end() ? "nothing" : "a tensor";
      address.right = have == judged.end() ? "nothing" : "a tensor";
      keep_worst(out, infinite, address);
      continue;
    }
    const GlobalTensor tensor = assemble(want->second);
    const double unit = roundoff(have->second.front().entry.dtype);
    std::vector<double> errors;
    for (const BytesMap& other : others) {
      const auto error = reference_error(other, name, tensor);
      if (!error) out.incomparable = fmt::format("the reference lacks {} {}", what, name);
      errors.push_back(error.value_or(0));
    }
    const double allowed = allowed_error(errors, unit * norm_of(tensor), tensor.dtype);
    if (unit == 0) out.incomparable = fmt::format("{} {} is neither F32 nor BF16", what, name);
    if (!out.incomparable.empty()) return out;
    judge_tensor(have->second, tensor, allowed, address, out);
    ++out.tensors;
  }
  return out;
}

}  // namespace shardproof

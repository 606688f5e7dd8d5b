// compare_errors: distances per tensor, against what the references are off.
#include "invariants/compare_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>

#include "invariants/tensor_distance.h"

namespace shardproof {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// What a reference is off; empty when it does not hold the tensor whole.
std::optional<double> reference_error(const BytesMap& reference, const std::string& name,
                                      const GlobalTensor& truth) {
  const auto held = reference.find(name);
  if (held == reference.end()) return std::nullopt;
  const TensorDistance errors = distance_from(held->second, truth);
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
  const TensorDistance errors = distance_from(entries, truth);
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

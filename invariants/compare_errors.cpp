// compare_errors: distances per tensor, against what the references are off.
#include "invariants/compare_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "invariants/tensor_distance.h"

namespace shardproof {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

// Beyond this share of a tensor its references' error leaves it a few bits at most.
constexpr double noise_share = 0x1p-3;

// What is allowed of a tensor: `least`, or what the references are off. Beside a `truth` more exact
// than they are, no more than policy.bound x the first.
double allowed_error(const std::vector<double>& references, double least, bool exact_truth) {
  double allowed = least;
  if (!references.empty()) allowed = std::max(least, references.front());
  const double widest = exact_truth ? native_gradients().bound * allowed : infinite;
  for (const double each : references) allowed = std::max(allowed, std::min(each, widest));
  return allowed;
}

void keep_worst(ErrorComparison& out, double ratio, const Difference& address) {
  if (std::isnan(ratio)) ratio = infinite;
  if (!out.worst.tensor.empty() && ratio <= out.ratio) return;
  out.ratio = ratio;
  out.worst = address;
}

// A tensor of each side, and where it is.
struct Sides {
  const std::vector<HeldBytes>& truth;
  std::vector<const std::vector<HeldBytes>*> references;
  const std::vector<HeldBytes>& found;
  Difference address;
};

// A tensor of all sides, measured.
struct Measured {
  Sides sides;
  Distances distances;  // of the judged side, then of the references
  double unit = 0;

  std::int64_t elements() const {
    return element_count(sides.truth.front().entry.place.global_shape);
  }
  std::vector<double> references() const {
    std::vector<double> out;
    for (std::size_t i = 1; i < distances.sides.size(); ++i) {
      out.push_back(distances.sides[i].norm);
    }
    return out;
  }
};

// Empty when each reference holds the tensor whole and finite, and its dtype has a rounding.
std::string measure_problem(const Measured& measured) {
  const Difference& at = measured.sides.address;
  if (measured.unit == 0) {
    return fmt::format("{} {} is neither F32, BF16 nor F64", at.phase, at.tensor);
  }
  const Dtype found = measured.sides.found.front().entry.dtype;
  if (roundoff(found) > measured.unit) {
    const Dtype precise = measured.sides.references.front()->front().entry.dtype;
    return fmt::format("{} {} is {}, coarser than the reference's {}: its error cannot be judged",
                       at.phase, at.tensor, name(found), name(precise));
  }
  for (std::size_t i = 1; i < measured.distances.sides.size(); ++i) {
    const TensorDistance& each = measured.distances.sides[i];
    if (each.problem.empty() && std::isfinite(each.norm)) continue;
    return fmt::format("the reference lacks {} {}", at.phase, at.tensor);
  }
  return "";
}

Measured measure(Sides sides) {
  std::vector<const std::vector<HeldBytes>*> all = {&sides.found};
  all.insert(all.end(), sides.references.begin(), sides.references.end());
  Distances distances = distances_from(sides.truth, all);
  const auto& precise = sides.references.empty() ? sides.found : *sides.references.front();
  const double unit = roundoff(precise.front().entry.dtype);
  return {std::move(sides), std::move(distances), unit};
}

// The share that the first reference is off over all tensors.
double pooled_error(const std::vector<Measured>& all) {
  double error = 0, norm = 0;
  for (const Measured& each : all) {
    const std::vector<double> references = each.references();
    if (!references.empty()) error = std::hypot(error, references.front());
    norm = std::hypot(norm, each.distances.norm);
  }
  return norm > 0 ? error / norm : 0;
}

// The u of most elements: a tensor or two of a coarser dtype say nothing of the others.
double common_unit(const std::vector<Measured>& all) {
  std::map<double, std::int64_t> elements;
  for (const Measured& each : all) elements[each.unit] += each.elements();
  const auto most =
      std::max_element(elements.begin(), elements.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == elements.end() ? 0 : most->first;
}

// What the references are off over all tensors of that u.
double worst_share(const std::vector<Measured>& all, double unit) {
  double error = 0, norm = 0;
  for (const Measured& each : all) {
    if (each.unit != unit) continue;
    const std::vector<double> references = each.references();
    if (!references.empty()) {
      error = std::hypot(error, *std::max_element(references.begin(), references.end()));
    }
    norm = std::hypot(norm, each.distances.norm);
  }
  return norm > 0 ? error / norm : 0;
}

void judge_tensor(const Measured& measured, double least_share, ErrorComparison& out) {
  const Sides& sides = measured.sides;
  Difference address = sides.address;
  const Dtype dtype = sides.found.front().entry.dtype;
  const bool exact = sides.truth.front().entry.dtype == Dtype::f64 && dtype != Dtype::f64;
  const std::vector<double> references = measured.references();
  const double allowed = allowed_error(references, least_share * measured.distances.norm, exact);
  const double worst =
      references.empty() ? 0 : *std::max_element(references.begin(), references.end());
  ++out.tensors;
  out.norm = std::hypot(out.norm, measured.distances.norm);
  out.allowed = std::hypot(out.allowed, allowed);
  out.reference = std::hypot(out.reference, worst);
  if (worst > noise_share * measured.distances.norm) out.noise.insert(address.tensor);
  const TensorDistance& found = measured.distances.sides.front();
  if (!found.problem.empty()) {
    address.left = fmt::format("shape [{}], whole",
                               fmt::join(sides.truth.front().entry.place.global_shape, ","));
    address.right = found.problem;
    return keep_worst(out, infinite, address);
  }
  tell_farthest(address, found, sides.truth, sides.found);
  address.left += fmt::format("; the tensor within {:.2g}", allowed);
  address.right += fmt::format("; the tensor off by {:.2g}", found.norm);
  // Equal to a truth of zeros where the reference is too: 0 / 0.
  const double ratio = found.norm == 0 ? 0 : found.norm / allowed;
  if (std::isfinite(ratio)) address.times = ratio;
  keep_worst(out, ratio, address);
}

// Drops what is not named so, and what the sides to compare with do not have.
void keep_common(const std::string& suffix, BytesMap& exact, BytesMap& judged,
                 std::vector<BytesMap>& others) {
  const auto kept = [&](const std::string& name) {
    return name.ends_with(suffix) && exact.contains(name) &&
           std::all_of(others.begin(), others.end(),
                       [&](const BytesMap& each) { return each.contains(name); });
  };
  std::erase_if(exact, [&](const auto& each) { return !kept(each.first); });
  std::erase_if(judged, [&](const auto& each) { return !exact.contains(each.first); });
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

const Policy& subject_scalar(double unit) {
  static const Policy fine{
      Policy::Kind::relative_norm, 64 * 0x1p-24,
      "a mean or a norm over thousands of fp32 terms: rounding of a few u; a wrong factor, count "
      "or share is far beyond it"};
  static const Policy exact{Policy::Kind::relative_norm, 64 * 0x1p-53,
                            "as in fp32, in units of float64's rounding"};
  static const Policy coarse{
      Policy::Kind::relative_norm, 4 * 0x1p-9,
      "a mean or a norm of bf16 terms, itself perhaps rounded to bf16: a few of its u; a lost "
      "share of 1/k is beyond it, a small one may not be"};
  if (unit > 0x1p-12) return coarse;
  return unit < 0x1p-30 ? exact : fine;
}

const Policy& subject_linear_moment() {
  static const Policy policy{
      Policy::Kind::error_model, 8,
      "linear in the clipped gradient, so off as that is, and as the factor of clipping is: twice "
      "what a gradient may be"};
  return policy;
}

const Policy& subject_square_moment() {
  static const Policy policy{
      Policy::Kind::error_model, 16,
      "the square of what a gradient that is all noise may be off (4 x); of others, whose square "
      "is off twice as much on both sides, far more than rounding needs"};
  return policy;
}

const Policy& subject_update() {
  static const Policy policy{
      Policy::Kind::error_model, 4,
      "AdamW divides by the gradient's own size: where that is next to 0 rounding turns the sign "
      "of an element's update, so the whole tensor's is judged, to 8 % at least; one that is left "
      "out is 100 % off, one that goes the wrong way 200 %"};
  return policy;
}

const Policy& subject_loss_drift() {
  static const Policy policy{Policy::Kind::relative_norm, 0.05,
                             "from equal weights rounding does not move a mean loss by 5 % in a "
                             "handful of steps"};
  return policy;
}

const Policy& subject_norm_drift() {
  static const Policy policy{Policy::Kind::relative_norm, 0.25,
                             "as the loss, of a norm that feels single elements more; a gradient "
                             "divided by another k is further off"};
  return policy;
}

ErrorComparison compare_errors(const Trace& truth, std::span<const Trace* const> references,
                               const Trace& found, std::int64_t step, const std::string& what,
                               const ErrorRule& rule) {
  ErrorComparison out;
  std::vector<Measured> all;
  BytesMap exact = bytes_at(truth, step, what), judged = bytes_at(found, step, what);
  std::vector<BytesMap> others;
  for (const Trace* each : references) others.push_back(bytes_at(*each, step, what));
  if (!rule.suffix.empty()) keep_common(rule.suffix, exact, judged, others);
  if (exact.empty() || judged.empty()) {
    out.incomparable = fmt::format("no bytes of {} at step {} were captured on {} side", what, step,
                                   exact.empty() ? "the float64" : "the judged");
    return out;
  }
  out.captured = true;
  std::set<std::string> names;
  for (const BytesMap* map : {&exact, &judged}) {
    for (const auto& [name, entries] : *map) names.insert(name);
  }
  for (const std::string& name : names) {
    Difference address;
    address.step = step;
    address.phase = what;
    address.tensor = name;
    const auto want = exact.find(name), have = judged.find(name);
    if (want == exact.end() || have == judged.end()) {
      address.left = want == exact.end() ? "nothing" : "a tensor";
      address.right = have == judged.end() ? "nothing" : "a tensor";
      keep_worst(out, infinite, address);
      continue;
    }
    Sides sides{want->second, {}, have->second, address};
    for (const BytesMap& other : others) {
      const auto held = other.find(name);
      if (held != other.end()) sides.references.push_back(&held->second);
    }
    if (sides.references.size() != others.size()) {
      out.incomparable = fmt::format("the reference lacks {} {}", what, name);
      return out;
    }
    all.push_back(measure(std::move(sides)));
    out.incomparable = measure_problem(all.back());
    if (!out.incomparable.empty()) return out;
  }
  const double share = pooled_error(all);
  out.unit = common_unit(all);
  out.share = worst_share(all, out.unit);
  for (const Measured& each : all) {
    const double least = rule.least * each.unit;
    judge_tensor(each, std::max(least, each.elements() < rule.few ? share : 0), out);
  }
  return out;
}

}  // namespace shardproof

// compare: scalars of a step, then whole runs in the order of cause.
#include "invariants/compare.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

constexpr const char* whats[] = {"grad", "param", "moment"};

// Of worlds of one size the same rank's own: that ranks agree is for other checks, and a program
// whose ranks do not may still be reproducible.
const RankTrace& counterpart(const Trace& expected, const Trace& found, const RankTrace& rank) {
  if (expected.ranks.size() != found.ranks.size()) return expected.ranks.front();
  const auto own = std::find_if(expected.ranks.begin(), expected.ranks.end(),
                                [&](const RankTrace& each) { return each.rank == rank.rank; });
  return own == expected.ranks.end() ? expected.ranks.front() : *own;
}

std::optional<Difference> compare_step_records(const Trace& expected, const Trace& found,
                                               std::int64_t step, bool norms) {
  Difference out;
  out.step = step;
  out.phase = "step";
  for (const RankTrace& rank : found.ranks) {
    const StepRecord* want = counterpart(expected, found, rank).find_step(step);
    const StepRecord* have = rank.find_step(step);
    out.rank = rank.rank;
    if (want == nullptr || have == nullptr) {
      out.left = want == nullptr ? "missing" : "done";
      out.right = have == nullptr ? "missing" : "done";
      if (out.left != out.right) return out;
      continue;
    }
    std::optional<Difference> first = compare_scalars(*want, *have);
    const bool late = first && first->phase != "loss";  // caused after the gradients
    if (!first || late != norms) continue;
    first->rank = rank.rank;
    return first;
  }
  return std::nullopt;
}

// All from..to: tensors may be there where no step event is. Of imports, which have no tensors and
// may lack most steps, those that a side has.
std::vector<std::int64_t> steps_between(const Trace& expected, const Trace& found,
                                        std::int64_t from, std::int64_t to) {
  std::set<std::int64_t> steps;
  if (imported_from(expected) || imported_from(found)) {
    for (const Trace* side : {&expected, &found}) {
      const std::vector<std::int64_t> numbers = side->step_numbers();
      steps.insert(std::lower_bound(numbers.begin(), numbers.end(), from),
                   std::upper_bound(numbers.begin(), numbers.end(), to));
    }
  } else {
    for (std::int64_t step = from; step <= to; ++step) steps.insert(steps.end(), step);
  }
  return {steps.begin(), steps.end()};
}

bool lacks_samples(const Trace& trace, std::int64_t step) {
  return std::any_of(trace.ranks.begin(), trace.ranks.end(), [&](const RankTrace& rank) {
    const StepRecord* record = rank.find_step(step);
    return record != nullptr && is_missing(*record, "samples");
  });
}

std::optional<Difference> compare_samples(const Trace& expected, const Trace& found,
                                          std::int64_t step) {
  if (lacks_samples(expected, step) || lacks_samples(found, step)) return std::nullopt;
  const std::vector<std::int64_t> want = world_samples(expected, step);
  const std::vector<std::int64_t> have = world_samples(found, step);
  if (want == have) return std::nullopt;
  Difference out;
  out.step = step;
  out.phase = "samples";
  out.left = fmt::format("[{}]", fmt::join(want, ","));
  out.right = fmt::format("[{}]", fmt::join(have, ","));
  return out;
}

// A trace of the public format alone may be of an optimizer that keeps none.
bool must_have_moments(const Trace& trace) {
  return says_config(trace) || traces_all_tensors(trace) || !tensor_steps(trace, whats[2]).empty();
}

}  // namespace

std::string scalar_bits(double value) {
  return std::isnan(value) ? "nan" : bits_hex(value);
}

std::optional<Difference> compare_scalars(const StepRecord& expected, const StepRecord& found) {
  Difference out;
  out.step = expected.step;
  const auto differ = [&](const char* phase, const std::string& left, const std::string& right) {
    if (left == right || is_missing(expected, phase) || is_missing(found, phase)) return false;
    out.phase = phase;
    out.left = left;
    out.right = right;
    return true;
  };
  // In roundings of fp32, in which programs compute these.
  const auto number = [&](const char* phase, double left, double right) {
    if (!differ(phase, scalar_bits(left), scalar_bits(right))) return false;
    out.times = roundings_apart(Dtype::f32, left, right);
    return true;
  };
  if (differ("step", std::to_string(expected.step), std::to_string(found.step)) ||
      number("loss", expected.loss, found.loss) ||
      number("grad_norm", expected.grad_norm, found.grad_norm) ||
      differ("lr", scalar_bits(expected.lr), scalar_bits(found.lr)) ||
      differ("skipped", expected.skipped ? "true" : "false", found.skipped ? "true" : "false")) {
    return out;
  }
  return std::nullopt;
}

std::string uncompared(const StepRecord& expected, const StepRecord& found) {
  std::vector<std::string> keys = missing_keys(expected);
  for (const std::string& key : missing_keys(found)) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
  }
  return fmt::format("{}", fmt::join(keys, ", "));
}

std::vector<std::int64_t> world_samples(const Trace& trace, std::int64_t step) {
  std::set<std::int64_t> out;
  for (const RankTrace& rank : trace.ranks) {
    if (const StepRecord* record = rank.find_step(step)) {
      out.insert(record->samples.begin(), record->samples.end());
    }
  }
  return {out.begin(), out.end()};
}

RunComparison compare_runs(const Trace& expected, const Trace& found, std::int64_t from,
                           std::int64_t to) {
  RunComparison out;
  const auto tensors = [&](std::int64_t step, const std::string& what) {
    const TensorComparison each = compare_tensors(expected, found, step, what);
    out.tensors += each.compared;
    if (!each.incomparable.empty()) out.incomparable.push_back(each.incomparable);
    if (each.first) out.first = each.first;
    return each.first.has_value();
  };
  for (const char* what : {"param", "moment"}) {
    const bool both =
        holds_tensors(expected, from - 1, what) && holds_tensors(found, from - 1, what);
    if (both && tensors(from - 1, what)) return out;
  }
  const std::int64_t before = out.tensors;
  const bool moments = must_have_moments(expected) || must_have_moments(found);
  std::string said_lacking;  // a line says it once, not at each of many steps
  for (const std::int64_t step : steps_between(expected, found, from, to)) {
    std::vector<std::string> untraced;
    const auto kind = [&](const char* what) {
      const std::int64_t compared = out.tensors;
      const bool differs = tensors(step, what);
      const bool legal = !moments && what == whats[2];
      if (out.tensors == compared && !legal) untraced.push_back(what);
      return differs;
    };
    if ((out.first = compare_samples(expected, found, step))) return out;
    if ((out.first = compare_step_records(expected, found, step, false))) return out;
    if (kind(whats[0])) return out;
    if ((out.first = compare_step_records(expected, found, step, true))) return out;
    if (kind(whats[1]) || kind(whats[2])) return out;
    // A step may be captured or not; one that is captured in part proves only that part.
    if (!untraced.empty() && untraced.size() < (moments ? 3u : 2u)) {
      out.incomparable.push_back(
          fmt::format("no {} was traced at step {}", fmt::join(untraced, " and "), step));
    }
    const StepRecord *left = expected.ranks.front().find_step(step),
                     *right = found.ranks.front().find_step(step);
    const std::string lacking = left && right ? uncompared(*left, *right) : "";
    if (!lacking.empty() && lacking != said_lacking) {
      out.incomparable.push_back(fmt::format("not traced at step {}: {}", step, lacking));
    }
    said_lacking = lacking;
    ++out.steps;
  }
  if (out.tensors == before) out.incomparable.push_back("no tensor of any step was traced");
  return out;
}

}  // namespace shardproof

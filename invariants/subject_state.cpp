// subject_state: see subject_state.h.
#include "invariants/subject_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"

namespace shardproof {
namespace {

// A gradient below this share of the step's largest may be all rounding (a key's bias has no
// other), and then an optimizer without moments moves nothing by it.
constexpr double least_share = 0x1p-16;
// A smaller learning rate (the first of a warm-up) may move fp32 weights by less than an ulp.
constexpr double least_rate = 1e-6;

struct Extent {
  double largest = 0;         // |value|, of those that are finite
  std::int64_t strange = -1;  // the first element that is not
};

Extent extent_of(const HeldBytes& held) {
  Extent out;
  const std::size_t width = size_of(held.entry.dtype);
  const std::size_t count = held.entry.bytes.size() / width;
  constexpr std::size_t at_once = 4096;
  std::vector<double> values;
  for (std::size_t lo = 0; lo < count; lo += at_once) {
    values.resize(std::min(at_once, count - lo));
    element_values(held.entry.dtype, held.entry.bytes.data() + lo * width, values);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) {
        out.largest = std::max(out.largest, std::abs(values[i]));
      } else if (out.strange < 0) {
        out.strange = static_cast<std::int64_t>(lo + i);
      }
    }
  }
  return out;
}

std::optional<Ruling> not_finite(const Trace& trace, std::int64_t step, const char* what) {
  for (const auto& [name, entries] : bytes_at(trace, step, what)) {
    for (const HeldBytes& each : entries) {
      const std::int64_t element = extent_of(each).strange;
      if (element < 0) continue;
      Difference at;
      at.step = step;
      at.phase = what;
      at.tensor = name;
      at.piece = each.entry.place.piece;
      at.rank = each.rank;
      at.element = element;
      at.left = "a finite value";
      at.right = element_hex(
          each.entry.dtype,
          &each.entry.bytes[static_cast<std::size_t>(element) * size_of(each.entry.dtype)]);
      return rule_fail(fmt::format("the {} {} is not finite after step {}", what, name, step), at);
    }
  }
  return std::nullopt;
}

// The names of gradients that must move their parameter at a step.
std::set<std::string> pushed_at(const Trace& trace, std::int64_t step) {
  const StepRecord* record = trace.ranks.front().find_step(step);
  if (record == nullptr || record->skipped || !(record->lr >= least_rate)) return {};
  std::map<std::string, double> sizes;
  double largest = 0;
  for (const auto& [name, entries] : bytes_at(trace, step, "grad")) {
    double& size = sizes[name];
    for (const HeldBytes& each : entries) size = std::max(size, extent_of(each).largest);
    largest = std::max(largest, size);
  }
  std::set<std::string> out;
  for (const auto& [name, size] : sizes) {
    if (size > 0 && size >= least_share * largest) out.insert(name);
  }
  return out;
}

// Whether both hold the same places with the same bits.
bool same_bits(const std::vector<HeldBytes>& a, const std::vector<HeldBytes>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const HeldBytes& x, const HeldBytes& y) {
                      return x.rank == y.rank && std::ranges::equal(x.entry.bytes, y.entry.bytes);
                    });
}

// What is known of a parameter over the captured steps.
struct Motion {
  std::int64_t pushed = -1;  // the first step that must have moved it
  bool moved = false;
  bool rounds = false;  // in less than fp32: an update may be lost
};

std::map<std::string, Motion> motions(const Trace& trace) {
  std::map<std::string, Motion> out;
  BytesMap before;
  std::int64_t last = 0;
  const std::vector<std::int64_t> done = trace.step_numbers();
  for (const std::int64_t step : tensor_steps(trace, "param")) {
    BytesMap now = bytes_at(trace, step, "param");
    std::map<std::string, std::int64_t> pushed;
    for (const std::int64_t each : done) {
      if (before.empty() || each <= last || each > step) continue;
      for (const std::string& name : pushed_at(trace, each)) pushed.try_emplace(name, each);
    }
    for (const auto& [name, entries] : now) {
      const auto old = before.find(name);
      if (old == before.end()) continue;
      Motion& motion = out[name];
      const Dtype dtype = entries.front().entry.dtype;
      motion.rounds = dtype != Dtype::f32 && dtype != Dtype::f64;
      motion.moved = motion.moved || !same_bits(old->second, entries);
      if (motion.pushed < 0 && pushed.contains(name)) motion.pushed = pushed[name];
    }
    before = std::move(now);
    last = step;
  }
  return out;
}

}  // namespace

Ruling judge_records(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    if (rank.world != trace.world()) {
      return {Outcome::fail,
              fmt::format("rank {} says the world is {}, rank {} says {}", rank.rank, rank.world,
                          trace.ranks.front().rank, trace.world()),
              std::nullopt};
    }
    if (!rank.ended || rank.steps.empty() || imported_from(trace)) continue;
    if (*rank.ended != rank.steps.back().step + 1) {
      return {Outcome::fail,
              fmt::format("rank {} ended at step {}, but its last step is {}: the end is the step "
                          "behind it",
                          rank.rank, *rank.ended, rank.steps.back().step),
              std::nullopt};
    }
  }
  for (const TensorFileRef& file : trace.files) {
    const auto rank = std::find_if(trace.ranks.begin(), trace.ranks.end(),
                                   [&](const RankTrace& each) { return each.rank == file.rank; });
    if (rank == trace.ranks.end() || rank->steps.empty()) continue;
    const bool start = file.step == rank->steps.front().step - 1 && file.what != "grad";
    if (start || rank->find_step(file.step) != nullptr) continue;
    return {Outcome::fail,
            fmt::format("rank {} captured a {} of step {}, of which it has no record", file.rank,
                        file.what, file.step),
            std::nullopt};
  }
  return {};
}

Ruling judge_state(const Trace& trace, std::vector<std::string>& notes) {
  if (trace.ranks.empty() || trace.step_numbers().empty()) return {};
  for (const char* what : {"param", "moment"}) {
    for (const std::int64_t step : tensor_steps(trace, what)) {
      if (const auto found = not_finite(trace, step, what)) return *found;
    }
  }
  const std::set<std::string> frozen = frozen_names(trace);
  for (const auto& [name, motion] : motions(trace)) {
    if (motion.moved || motion.pushed < 0 || frozen.contains(name)) continue;
    if (motion.rounds) {
      notes.push_back(
          fmt::format("{} never changes: its updates may be below the rounding of its "
                      "dtype",
                      name));
      continue;
    }
    Difference at;
    at.step = motion.pushed;
    at.phase = "param";
    at.tensor = name;
    at.left = "moved by its gradient";
    at.right = "the same bits at every captured step";
    return rule_fail(fmt::format("the parameter {} has a gradient and never changes, and is not "
                                 "listed as frozen",
                                 name),
                     at);
  }
  return {};
}

}  // namespace shardproof

// cover: the places of all ranks tile each global tensor, what is held twice is held equal, and no
// parameter lacks anything at a step that was done.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "invariants/cover_findings.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

constexpr const char* kinds[] = {"param", "grad", "moment"};

// What every parameter must have at every step.
struct Need {
  const char* what;
  const char* suffix;  // of the tensor's name, behind the parameter's
};
constexpr Need needs[] = {
    {"param", ""}, {"grad", ""}, {"moment", "/exp_avg"}, {"moment", "/exp_avg_sq"}};
constexpr Need master{"moment", "/master"};  // where the trainer keeps any

// The first of the named parameters that lacks what it needs at a step. Where all lack it, a trace
// that does not say that it traces everything may not have captured it; nor may one that is kept to
// some names.
std::optional<Finding> find_missing(const Trace& trace, std::int64_t step, const Need& need,
                                    const std::set<std::string>& names, bool all_traced) {
  const PlaceMap places = places_at(trace, step, need.what);
  std::string missing;
  bool any = false;
  for (const std::string& name : names) {
    if (places.count(name + need.suffix) != 0) {
      any = true;
    } else if (missing.empty()) {
      missing = name + need.suffix;
    }
  }
  if (missing.empty()) return std::nullopt;
  if (!any && !all_traced) {
    return Finding{fmt::format("no {}{} was traced at step {}", need.what, need.suffix, step),
                   std::nullopt, true};
  }
  if (kept_to(trace)) {
    return Finding{
        fmt::format("{}: {} {} at step {} may not", kept_text(trace), need.what, missing, step),
        std::nullopt, true};
  }
  Difference address;
  address.step = step;
  address.phase = need.what;
  address.tensor = missing;
  address.left = "every element on some rank";
  address.right = "nothing";
  return Finding{fmt::format("the {} {} is on no rank at step {}", need.what, missing, step),
                 address};
}

// The parameters of the first traced step.
std::set<std::string> initial_names(const Trace& trace, std::int64_t first) {
  std::set<std::string> out;
  for (const auto& [name, places] : places_at(trace, first, "param")) out.insert(name);
  return out;
}

bool has_masters(const Trace& trace) {
  for (const std::int64_t step : tensor_steps(trace, master.what)) {
    for (const auto& [name, places] : places_at(trace, step, master.what)) {
      if (name.ends_with(master.suffix)) return true;
    }
  }
  return false;
}

// Everything wrong or open, in order.
std::vector<Finding> find_all(const Trace& trace, const std::set<std::string>& names) {
  std::vector<Finding> out;
  const auto add = [&](std::optional<Finding> found) {
    if (found) out.push_back(std::move(*found));
  };
  add(find_renumbered(trace));
  for (const char* what : kinds) {
    for (const std::int64_t step : tensor_steps(trace, what)) add(find_problem(trace, step, what));
  }
  std::set<std::string> trained = names;
  for (const std::string& name : frozen_names(trace)) trained.erase(name);
  const bool all_traced = traces_all_tensors(trace);
  std::vector<Need> all_needs(std::begin(needs), std::end(needs));
  if (has_masters(trace)) all_needs.push_back(master);
  for (const Need& need : all_needs) {
    const bool value = std::string(need.what) == "param";
    std::set<std::int64_t> steps;
    for (const std::int64_t step : trace.step_numbers()) steps.insert(step);
    if (value) {
      for (const std::int64_t step : tensor_steps(trace, need.what)) steps.insert(step);
    }
    for (const std::int64_t step : steps) {
      add(find_missing(trace, step, need, value ? names : trained, all_traced));
      if (value) add(find_new(trace, step, names));
    }
  }
  return out;
}

}  // namespace

Verdict check_cover(const Trace& trace) {
  Verdict verdict =
      open_verdict("cover",
                   "at every step the places of all ranks tile each parameter, its gradient, both "
                   "moments and its master without a hole, what several ranks hold is bit-equal, "
                   "and no parameter appears later");
  const std::vector<std::int64_t> traced = tensor_steps(trace, "param");
  if (traced.empty()) return undecided(verdict, "no parameter was traced");
  const std::set<std::string> names = initial_names(trace, traced.front());
  std::string open;
  for (const Finding& found : find_all(trace, names)) {
    if (!found.undecided) return fails(verdict, found.reason, found.difference);
    if (open.empty()) open = found.reason;
  }
  if (trace.step_numbers().empty() && open.empty()) open = "no step was traced";
  for (const char* what : kinds) {
    verdict.notes.push_back(fmt::format("{}: {} steps", what, tensor_steps(trace, what).size()));
  }
  return open.empty() ? passes(verdict) : undecided(verdict, open);
}

}  // namespace shardproof

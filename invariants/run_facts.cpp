// run_facts: see run_facts.h.
#include "invariants/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "trace/missing.h"

namespace shardproof {
namespace {

const Json* find_fact(const Trace& trace, const char* pointer) {
  if (trace.ranks.empty()) return nullptr;
  const Json& run = trace.ranks.front().run;
  const Json::json_pointer path(pointer);
  return run.is_object() && run.contains(path) ? &run[path] : nullptr;
}

bool has_finite_scalars(const StepRecord& step, bool may_lack) {
  const auto finite = [&](double value, const char* key) {
    return std::isfinite(value) || (may_lack && is_missing(step, key));
  };
  // A loss scaler skips a step whose norm is none.
  return finite(step.loss, "loss") && (step.skipped || finite(step.grad_norm, "grad_norm"));
}

// How many digits the scalars of an import have, by key; "all bits" of a trace by an emitter.
std::string digits_of(const Trace& trace, const std::string& key) {
  if (!text_fact(trace, "/imported")) return "all bits";
  return text_fact(trace, ("/scalars/" + key + "/digits").c_str()).value_or("");
}

// Numbers that were printed to four decimals differ from the same ones to five.
std::string digits_obstacle(const Trace& expected, const Trace& found) {
  for (const char* key : {"loss", "grad_norm", "lr"}) {
    const std::string left = digits_of(expected, key), right = digits_of(found, key);
    if (left.empty() || right.empty() || left == right) continue;
    return fmt::format("{} has {} on the expected side and {} on the judged side", key, left,
                       right);
  }
  return "";
}

}  // namespace

std::string model_coordinates(const RankTrace& rank) {
  std::string out;
  if (!rank.run.is_object() || !rank.run.contains("coords")) return out;
  for (const auto& [axis, at] : rank.run["coords"].items()) {
    if (axis != "dp" && axis != "cp" && axis != "ep") out += fmt::format("{}={} ", axis, at.dump());
  }
  return out;
}

std::set<std::string> frozen_names(const Trace& trace) {
  std::set<std::string> out;
  for (const RankTrace& rank : trace.ranks) {
    if (!rank.run.is_object() || !rank.run.contains("frozen")) continue;
    for (const Json& each : rank.run["frozen"]) {
      if (each.is_string()) out.insert(each.get<std::string>());
    }
  }
  return out;
}

bool traces_all_tensors(const Trace& trace) {
  return !trace.ranks.empty() &&
         std::all_of(trace.ranks.begin(), trace.ranks.end(), [](const RankTrace& rank) {
           return rank.run.is_object() && rank.run.contains("tensors") &&
                  rank.run["tensors"] == "all";
         });
}

std::optional<std::string> kept_to(const Trace& trace) {
  for (const RankTrace& rank : trace.ranks) {
    if (!rank.run.is_object()) continue;
    const auto match = rank.run.find("match");
    if (match == rank.run.end() || !match->is_string() || match->get<std::string>().empty()) {
      continue;
    }
    return match->get<std::string>();
  }
  return std::nullopt;
}

std::string kept_text(const Trace& trace) {
  return fmt::format("the trace is kept to tensors that match \"{}\"", *kept_to(trace));
}

std::optional<std::int64_t> integer_fact(const Trace& trace, const char* pointer) {
  const Json* fact = find_fact(trace, pointer);
  if (fact == nullptr || !fact->is_number_integer()) return std::nullopt;
  return fact->get<std::int64_t>();
}

std::optional<std::string> text_fact(const Trace& trace, const char* pointer) {
  const Json* fact = find_fact(trace, pointer);
  if (fact == nullptr || !fact->is_string()) return std::nullopt;
  return fact->get<std::string>();
}

bool says_config(const Trace& trace) {
  return std::any_of(trace.ranks.begin(), trace.ranks.end(), [](const RankTrace& rank) {
    return rank.run.is_object() && rank.run.contains("config");
  });
}

std::optional<Difference> rank_difference(const Trace& trace) {
  for (const std::int64_t step : trace.step_numbers()) {
    const StepRecord* first = trace.ranks.front().find_step(step);
    for (const RankTrace& rank : trace.ranks) {
      const StepRecord* record = rank.find_step(step);
      std::optional<Difference> out;
      if (first != nullptr && record != nullptr) {
        out = compare_scalars(*first, *record);
      } else if (first != record) {
        out.emplace();
        out->step = step;
        out->phase = "step";
        out->left = first != nullptr ? "done" : "missing";
        out->right = record != nullptr ? "done" : "missing";
      }
      if (!out) continue;
      out->rank = rank.rank;
      return out;
    }
  }
  return std::nullopt;
}

bool is_native(const Trace& trace) {
  return text_fact(trace, "/config/numerics/reduction") == "native";
}

bool same_native_sums(const Trace& expected, const Trace& found) {
  for (const char* fact :
       {"/config/numerics", "/config/parallel", "/config/run/layout", "/config/run/backend"}) {
    const Json *left = find_fact(expected, fact), *right = find_fact(found, fact);
    if (left == nullptr || right == nullptr || *left != *right) return false;
  }
  return true;
}

std::optional<std::string> imported_from(const Trace& trace) {
  return text_fact(trace, "/imported");
}

std::string imported_text(const Trace& expected, const Trace& found) {
  const std::optional<std::string> left = imported_from(expected), right = imported_from(found);
  if (!left && !right) return "";
  const std::string formats = !left || !right || left == right ? left.value_or(right.value_or(""))
                                                               : *left + " and " + *right;
  return fmt::format("tensors: not verified (scalars imported from {})", formats);
}

bool tells_end(const RankTrace& rank) {
  return !rank.run.is_object() || rank.run.value("end", Json()) != "not known";
}

std::string comparison_obstacle(const Trace& expected, const Trace& found) {
  // Declared tolerances are of values that both sides must have.
  const bool may_lack = !is_native(expected) && !is_native(found);
  for (const Trace* trace : {&expected, &found}) {
    const char* side = trace == &expected ? "expected" : "judged";
    if (trace->ranks.empty() || trace->step_numbers().empty()) {
      return fmt::format("no step of the {} side was traced", side);
    }
    if (static_cast<int>(trace->ranks.size()) != trace->world()) {
      return fmt::format("{} of {} ranks of the {} side wrote a trace", trace->ranks.size(),
                         trace->world(), side);
    }
    // A dead run is not equal to a dead run.
    for (const RankTrace& rank : trace->ranks) {
      if (!rank.ended && tells_end(rank)) {
        return fmt::format("rank {} of the {} side never ended", rank.rank, side);
      }
      for (const StepRecord& step : rank.steps) {
        if (!has_finite_scalars(step, may_lack)) {
          return fmt::format("step {} of the {} side has no finite loss and norm", step.step, side);
        }
      }
    }
  }
  const std::string digits = digits_obstacle(expected, found);
  if (!digits.empty()) return digits;
  const auto code = [](const Trace& trace) {
    const Json& run = trace.ranks.front().run;
    return run.is_object() && run.contains("code") ? run["code"].dump() : std::string();
  };
  if (code(expected) != code(found)) {
    return fmt::format("the legs ran different programs ({} and {})", code(expected), code(found));
  }
  return "";
}

}  // namespace shardproof

// cover: the places of all ranks tile each global tensor, what is held twice is held equal, and no
// parameter lacks anything at a step that was done.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "invariants/compare_elements.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/tensor_windows.h"
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

struct Finding {
  std::string reason;
  std::optional<Difference> difference;
  bool undecided = false;
};

struct HeldPlace {
  int rank = 0;
  TensorPlace place;
};
using PlaceMap = std::map<std::string, std::vector<HeldPlace>>;

PlaceMap places_at(const Trace& trace, std::int64_t step, const std::string& what) {
  PlaceMap out;
  for (const RankTrace& rank : trace.ranks) {
    for (const TensorRecord& record : rank.tensors) {
      if (record.step != step || record.what != what) continue;
      check_place(record.place, fmt::format("rank {} step {} {}", rank.rank, step, what));
      out[record.place.name].push_back({rank.rank, record.place});
    }
  }
  if (!out.empty()) return out;
  for (const auto& [name, entries] : bytes_at(trace, step, what)) {
    for (const HeldBytes& each : entries) out[name].push_back({each.rank, each.entry.place});
  }
  return out;
}

std::optional<Finding> find_hole(const std::string& name, const std::vector<HeldPlace>& places,
                                 Difference address) {
  const Shape& global = places.front().place.global_shape;
  const std::int64_t count = element_count(global);
  std::int64_t held = 0;
  for (const HeldPlace& each : places) {
    if (each.place.global_shape != global) {
      return Finding{fmt::format("ranks {} and {} claim different global shapes for {}",
                                 places.front().rank, each.rank, name),
                     address};
    }
    held += elements_of(each.place).size();
  }
  address.left = fmt::format("{} elements", count);
  address.right = fmt::format("{} elements", held);
  if (held < count) {
    return Finding{fmt::format("{}: {} of {} elements are on no rank", name, count - held, count),
                   address};
  }
  std::vector<StretchWalk> walks;
  for (const HeldPlace& each : places) walks.emplace_back(each.place);
  Coverage seen;
  for (std::int64_t lo = 0; lo < count; lo += window_elements) {
    const std::int64_t hi = std::min(lo + window_elements, count);
    seen.begin(lo, hi);
    for (StretchWalk& walk : walks) {
      while (const auto each = walk.next(hi)) seen.add(*each);
    }
    const auto at = seen.first_missing();
    if (!at) continue;
    address.index = index_of(global, *at);
    address.right = fmt::format("a hole at global element {}", *at);
    return Finding{fmt::format("{}: element {} is on no rank", name, *at), address};
  }
  return std::nullopt;
}

// Digests of equal places must be equal; digests of places that overlap otherwise need bytes.
std::optional<Finding> find_unequal_digest(const DigestMap& digests, Difference address) {
  for (const auto& [key, held] : digests) {
    for (const HeldDigest& each : held) {
      if (each.digest == held.front().digest) continue;
      address.tensor = key.name;
      address.piece = each.piece;
      address.rank = each.rank;
      address.left = fmt::format("rank {} sha256 {:.16}", held.front().rank, held.front().digest);
      address.right = fmt::format("sha256 {:.16}", each.digest);
      return Finding{fmt::format("{}: ranks {} and {} hold different elements [{}:{}]", key.name,
                                 held.front().rank, each.rank, key.lo, key.hi),
                     address};
    }
  }
  return std::nullopt;
}

std::optional<Finding> find_unequal_bytes(const BytesMap& bytes, Difference address) {
  for (const auto& [name, entries] : bytes) {
    address.tensor = name;
    const auto unequal = find_unequal_copy(entries, address);
    if (!unequal) continue;
    return Finding{
        fmt::format("{}: rank {} holds another value than a lower rank", name, unequal->rank),
        unequal};
  }
  return std::nullopt;
}

// Whether some element is held by places that are not the same: digests cannot compare those.
bool overlap_across_cuts(const std::vector<HeldPlace>& places) {
  std::set<std::tuple<Shape, Shape, std::int64_t, std::int64_t>> distinct;
  std::int64_t held = 0;
  for (const HeldPlace& each : places) {
    const ElementRange range = elements_of(each.place);
    if (distinct.insert({each.place.box.offsets, each.place.box.shape, range.lo, range.hi})
            .second) {
      held += range.size();
    }
  }
  return held > element_count(places.front().place.global_shape);
}

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

std::optional<Finding> find_problem(const Trace& trace, std::int64_t step,
                                    const std::string& what) {
  Difference address;
  address.step = step;
  address.phase = what;
  const PlaceMap places = places_at(trace, step, what);
  for (const auto& [name, held] : places) {
    address.tensor = name;
    if (auto found = find_hole(name, held, address)) return found;
  }
  const BytesMap bytes = bytes_at(trace, step, what);
  if (auto found = find_unequal_bytes(bytes, address)) return found;
  address.tensor.clear();
  if (auto found = find_unequal_digest(digests_at(trace, step, what), address)) return found;
  for (const auto& [name, held] : places) {
    if (bytes.empty() && overlap_across_cuts(held)) {
      return Finding{fmt::format("{} at step {}: places overlap that are cut differently, and no "
                                 "bytes were captured",
                                 name, step),
                     std::nullopt, true};
    }
  }
  return std::nullopt;
}

// A box of a tensor has one number, on all ranks and at all steps: it is part of every address.
std::optional<Finding> find_renumbered(const Trace& trace) {
  std::map<std::tuple<std::string, Shape, Shape>, int> numbers;
  for (const RankTrace& rank : trace.ranks) {
    for (const TensorRecord& record : rank.tensors) {
      const TensorPlace& place = record.place;
      const auto [known, fresh] =
          numbers.try_emplace({place.name, place.box.offsets, place.box.shape}, place.piece);
      if (fresh || known->second == place.piece) continue;
      Difference address;
      address.step = record.step;
      address.phase = record.what;
      address.tensor = place.name;
      address.rank = rank.rank;
      address.left = fmt::format("piece {}", known->second);
      address.right = fmt::format("piece {}", place.piece);
      return Finding{fmt::format("{}: one box is piece {} and piece {}", place.name, known->second,
                                 place.piece),
                     address};
    }
  }
  return std::nullopt;
}

// The parameters of the first traced step.
std::set<std::string> initial_names(const Trace& trace, std::int64_t first) {
  std::set<std::string> out;
  for (const auto& [name, places] : places_at(trace, first, "param")) out.insert(name);
  return out;
}

// A parameter that the first traced step did not have: where was it, and what are its values from?
std::optional<Finding> find_new(const Trace& trace, std::int64_t step,
                                const std::set<std::string>& names) {
  for (const auto& [name, places] : places_at(trace, step, "param")) {
    if (names.contains(name)) continue;
    Difference address;
    address.step = step;
    address.phase = "param";
    address.tensor = name;
    address.rank = places.front().rank;
    address.left = "nothing, as at the first traced step";
    address.right = "a parameter";
    return Finding{fmt::format("the param {} first appears at step {}", name, step), address};
  }
  return std::nullopt;
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

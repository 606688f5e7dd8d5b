// cover_findings: in windows of the global grid, so that tensors may be larger than memory.
#include "invariants/cover_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "invariants/compare_elements.h"
#include "invariants/tensor_windows.h"

namespace shardproof {
namespace {

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
    const Dtype dtype = entries.front().entry.dtype;
    for (const HeldBytes& each : entries) {
      if (each.entry.dtype == dtype) continue;
      address.rank = each.rank;
      address.left = shardproof::name(dtype);
      address.right = shardproof::name(each.entry.dtype);
      return Finding{fmt::format("{}: ranks {} and {} hold different dtypes", name,
                                 entries.front().rank, each.rank),
                     address};
    }
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

}  // namespace

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

}  // namespace shardproof

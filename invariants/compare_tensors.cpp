// compare_tensors: digests first, bytes where digests cannot say enough.
#include "invariants/compare_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/check.h"
#include "invariants/compare_elements.h"
#include "invariants/tensor_distance.h"
#include "invariants/tensor_grid.h"

namespace shardproof {
namespace {

Difference at_key(std::int64_t step, const std::string& what, const DigestKey& key,
                  const HeldDigest& held) {
  Difference out;
  out.step = step;
  out.phase = what;
  out.tensor = key.name;
  out.piece = held.piece;
  out.rank = held.rank;
  return out;
}

std::string range_text(const DigestKey& key) {
  return fmt::format("[{}:{}]", key.lo, key.hi);
}

// Whether both sides cut a tensor alike: one side's keys contain the other's.
bool same_cut(const DigestMap& a, const DigestMap& b, const std::string& name) {
  const auto keys = [&](const DigestMap& map) {
    std::set<DigestKey> out;
    for (const auto& [key, held] : map) {
      if (key.name == name) out.insert(key);
    }
    return out;
  };
  const std::set<DigestKey> left = keys(a), right = keys(b);
  return std::includes(left.begin(), left.end(), right.begin(), right.end()) ||
         std::includes(right.begin(), right.end(), left.begin(), left.end());
}

std::set<std::string> names(const DigestMap& map) {
  std::set<std::string> out;
  for (const auto& [key, held] : map) out.insert(key.name);
  return out;
}

// Of the same rank, where it holds this too: that a side's copies agree is check_replicas'
// business, and a program whose copies differ may still be reproducible.
const HeldDigest& counterpart(const std::vector<HeldDigest>& holders, int rank) {
  for (const HeldDigest& each : holders) {
    if (each.rank == rank) return each;
  }
  return holders.front();
}

TensorComparison compare_digests(const DigestMap& expected, const DigestMap& found,
                                 std::int64_t step, const std::string& what) {
  TensorComparison out;
  const std::set<std::string> found_names = names(found);
  for (const std::string& name : names(expected)) {
    if (found_names.count(name) != 0 && !same_cut(expected, found, name)) {
      out.incomparable = fmt::format(
          "{} {} at step {} is cut differently: its digests are not "
          "comparable and bytes were not captured",
          what, name, step);
      return out;
    }
  }
  for (const auto& [key, held] : found) {
    const auto other = expected.find(key);
    if (other == expected.end()) {
      out.first = at_key(step, what, key, held.front());
      out.first->left = "nothing";
      out.first->right = "elements " + range_text(key);
      return out;
    }
    for (const HeldDigest& each : held) {
      const HeldDigest& want = counterpart(other->second, each.rank);
      ++out.compared;
      if (each.digest == want.digest && each.dtype == want.dtype) continue;
      out.first = at_key(step, what, key, each);
      out.first->left =
          fmt::format("{} {} sha256 {:.16}", name(want.dtype), range_text(key), want.digest);
      out.first->right =
          fmt::format("{} {} sha256 {:.16}", name(each.dtype), range_text(key), each.digest);
      return out;
    }
  }
  for (const auto& [key, held] : expected) {
    if (found.count(key) != 0) continue;
    out.first = at_key(step, what, key, held.front());
    out.first->rank = -1;
    out.first->left = "elements " + range_text(key);
    out.first->right = "nothing";
    return out;
  }
  return out;
}

std::int64_t held_elements(const std::vector<HeldBytes>& entries) {
  std::int64_t out = 0;
  for (const HeldBytes& each : entries) out += elements_of(each.entry.place).size();
  return out;
}

// 2-norms of what the first holders have; where the forms differ, by bits after all.
void compare_norms(const std::vector<HeldBytes>& expected, const std::vector<HeldBytes>& found,
                   const Policy& policy, Difference address, TensorComparison& out) {
  check_alike(expected);
  const TensorFile::Entry& want = expected.front().entry;
  const std::vector<HeldBytes>* sides[] = {&found};
  const Distances distances = distances_from(expected, sides);
  const TensorDistance& distance = distances.sides.front();
  if (found.front().entry.dtype != want.dtype || !distance.problem.empty()) {
    compare_elements(expected, found, address, out);
    return;
  }
  out.compared += element_count(want.place.global_shape);
  if (distance.norm <= policy.bound * distances.norm) return;  // false for a NaN
  tell_farthest(address, distance, expected, found);
  address.left = fmt::format("relative error <= {}", policy.bound);
  address.right = fmt::format("{}", distance.norm / distances.norm);
  out.first = address;
}

TensorComparison compare_bytes(const BytesMap& expected, const BytesMap& found, std::int64_t step,
                               const std::string& what, const Policy& policy) {
  TensorComparison out;
  std::set<std::string> all;
  for (const auto& [name, entries] : expected) all.insert(name);
  for (const auto& [name, entries] : found) all.insert(name);
  for (const std::string& name : all) {
    Difference address;
    address.step = step;
    address.phase = what;
    address.tensor = name;
    const auto left = expected.find(name), right = found.find(name);
    const bool both = left != expected.end() && right != found.end();
    const auto whole = [](const std::vector<HeldBytes>& entries) {
      return held_elements(entries) >= element_count(entries.front().entry.place.global_shape);
    };
    if (!both || !whole(left->second) || !whole(right->second)) {
      const auto size = [&](const BytesMap& map) {
        const auto at = map.find(name);
        return at == map.end() ? "nothing" : fmt::format("{} elements", held_elements(at->second));
      };
      address.left = size(expected);
      address.right = size(found);
      out.first = address;
      return out;
    }
    if (policy.kind == Policy::Kind::bitwise) {
      compare_elements(left->second, right->second, address, out);
    } else {
      compare_norms(left->second, right->second, policy, address, out);
    }
    if (out.first) return out;
  }
  return out;
}

std::string side_missing(std::int64_t step, const std::string& what, bool expected_missing) {
  return fmt::format("{} at step {} is traced on one side alone ({} is missing)", what, step,
                     expected_missing ? "the expected side" : "the judged side");
}

}  // namespace

TensorComparison compare_tensors(const Trace& expected, const Trace& found, std::int64_t step,
                                 const std::string& what, const Policy& policy) {
  SP_CHECK(policy.kind != Policy::Kind::error_model, "two sides cannot say how far each is off");
  const DigestMap left = digests_at(expected, step, what), right = digests_at(found, step, what);
  const bool digests = !left.empty() && !right.empty();
  TensorComparison by_digest;
  if (digests && policy.kind == Policy::Kind::bitwise) {
    by_digest = compare_digests(left, right, step, what);
    if (!by_digest.first && by_digest.incomparable.empty()) return by_digest;
  }
  const BytesMap left_bytes = bytes_at(expected, step, what),
                 right_bytes = bytes_at(found, step, what);
  if (!left_bytes.empty() && !right_bytes.empty()) {
    TensorComparison out = compare_bytes(left_bytes, right_bytes, step, what, policy);
    if (out.first || !by_digest.first) return out;
    return by_digest;  // the bytes written agree and their digests do not: the digest is judged
  }
  if (digests && policy.kind == Policy::Kind::bitwise) return by_digest;
  TensorComparison out;
  const bool no_left = left.empty() && left_bytes.empty();
  const bool no_right = right.empty() && right_bytes.empty();
  if (no_left != no_right) {
    out.incomparable = side_missing(step, what, no_left);
  } else if (!no_left) {
    out.incomparable = fmt::format("{} at step {} lacks captured bytes on one side", what, step);
  }
  return out;
}

}  // namespace shardproof

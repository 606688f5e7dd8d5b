// replicas: data-parallel copies are the same bits on every rank after every step.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

// The element at which two ranks of a captured step first differ, where bytes were captured.
void refine(const Trace& trace, Difference& address, const DigestKey& key, int reference) {
  const BytesMap bytes = bytes_at(trace, address.step, "param");
  const auto tensor = bytes.find(key.name);
  if (tensor == bytes.end()) return;
  std::vector<HeldBytes> left;
  for (const HeldBytes& each : tensor->second) {
    if (each.rank == reference) left.push_back(each);
  }
  if (left.empty()) return;
  for (const HeldBytes& each : tensor->second) {
    if (each.rank != address.rank) continue;
    for (const HeldBytes& other : left) {
      if (other.entry.place.box != each.entry.place.box || other.entry.dtype != each.entry.dtype ||
          other.entry.bytes.size() != each.entry.bytes.size()) {
        continue;
      }
      const std::size_t width = size_of(each.entry.dtype);
      for (std::size_t at = 0; at < each.entry.bytes.size(); at += width) {
        const std::byte* a = &other.entry.bytes[at];
        const std::byte* b = &each.entry.bytes[at];
        if (same_element(each.entry.dtype, a, b)) continue;
        address.piece = each.entry.place.piece;
        address.element = elements_of(each.entry.place).lo + static_cast<std::int64_t>(at / width);
        address.left = element_hex(each.entry.dtype, a);
        address.right = element_hex(each.entry.dtype, b);
        return;
      }
    }
  }
}

struct Copies {
  // How many ranks hold every block of tensors that are cut into pieces (1) and of those that are
  // not (0), which tensor ranks have in common; 0: not yet known.
  std::size_t each[2] = {0, 0};
  std::int64_t compared = 0;  // digests compared with another rank's
  std::optional<Difference> first;
  std::string reason;
};

void compare_copies(const Trace& trace, std::int64_t step, Copies& copies) {
  const DigestMap digests = digests_at(trace, step, "param");
  std::set<std::string> cut_tensors;
  for (const auto& [key, held] : digests) {
    if (held.front().piece != 0) cut_tensors.insert(key.name);
  }
  for (const auto& [key, held] : digests) {
    Difference address{step, "param", key.name, held.front().piece, -1, -1, "", ""};
    const bool cut = cut_tensors.contains(key.name);
    std::size_t& each = copies.each[cut ? 1 : 0];
    if (each == 0) each = held.size();
    if (held.size() != each) {
      address.left = fmt::format("{} copies", each);
      address.right = fmt::format("{} copies", held.size());
      copies.first = address;
      copies.reason = fmt::format("{} [{}:{}] is on {} ranks at step {}, other blocks are on {}",
                                  key.name, key.lo, key.hi, held.size(), step, each);
      return;
    }
    for (const HeldDigest& other : held) {
      if (&other != &held.front()) ++copies.compared;
      if (other.digest == held.front().digest) continue;
      address.rank = other.rank;
      address.left = fmt::format("rank {} [{}:{}] sha256 {:.16}", held.front().rank, key.lo, key.hi,
                                 held.front().digest);
      address.right = fmt::format("sha256 {:.16}", other.digest);
      refine(trace, address, key, held.front().rank);
      copies.first = address;
      copies.reason = fmt::format("ranks {} and {} hold different parameters after step {}",
                                  held.front().rank, other.rank, step);
      return;
    }
  }
}

// Whether the run's own layout puts every parameter on one rank alone: pipeline stages, or the
// shards of ZeRO 3. Then no copy can be compared, and none is missing.
bool claims_no_copies(const Trace& trace) {
  const std::optional<std::string> text = text_fact(trace, "/layout");
  if (!text) return false;
  try {
    const Layout layout = parse_layout(*text);
    const int state_copies = layout.shard_group > 0 ? layout.dp / layout.shard_group : 1;
    return layout.zero == 3 ? state_copies * layout.tp == 1
                            : layout.dp * layout.ep * layout.cp * layout.tp == 1;
  } catch (const Error&) {  // somebody else's words
    return false;
  }
}

std::string copies_text(const Copies& copies) {
  const auto [whole, cut] = copies.each;
  if (whole == cut || whole == 0 || cut == 0) return std::to_string(std::max(whole, cut));
  return fmt::format("{} (of tensors in pieces {})", whole, cut);
}

}  // namespace

Verdict check_replicas(const Trace& trace) {
  Verdict verdict = open_verdict("replicas",
                                 "all ranks hold bit-identical parameters, loss, "
                                 "gradient norm and learning rate after every step");
  if (trace.ranks.empty() || trace.step_numbers().empty()) {
    return undecided(verdict, "no step was traced");
  }
  if (static_cast<int>(trace.ranks.size()) != trace.world()) {
    return undecided(
        verdict, fmt::format("{} of {} ranks wrote a trace", trace.ranks.size(), trace.world()));
  }
  if (const auto difference = rank_difference(trace)) {
    return fails(verdict,
                 fmt::format("ranks {} and {} report different scalars at step {}",
                             trace.ranks.front().rank, difference->rank, difference->step),
                 difference);
  }
  Copies copies;
  for (const std::int64_t step : tensor_steps(trace, "param")) {
    compare_copies(trace, step, copies);
    if (copies.first) return fails(verdict, copies.reason, copies.first);
  }
  const std::vector<std::int64_t> digests = tensor_steps(trace, "param");
  for (const std::int64_t step : trace.step_numbers()) {
    if (digests_at(trace, step, "param").empty()) {
      return undecided(verdict, fmt::format("no parameter digest was traced after step {}", step));
    }
  }
  if (trace.world() > 1 && copies.compared == 0) {
    if (!claims_no_copies(trace)) return undecided(verdict, "no parameter is on two ranks");
    verdict.notes.push_back(
        "the layout puts each parameter on one rank: loss, norm and learning rate compared");
    return passes(verdict);
  }
  verdict.notes.push_back(fmt::format("{} block digests compared over {} steps, {} copies each",
                                      copies.compared, digests.size(), copies_text(copies)));
  return passes(verdict);
}

}  // namespace shardproof

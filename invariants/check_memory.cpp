// optimizer bytes: what ZeRO promises, counted from live buffers: masters and two moments are 12
// bytes a parameter, shared by R ranks, on the device or where they are offloaded. P is what one
// rank of a tensor and pipeline coordinate has to do with: its pieces, and parameters that are not
// cut.
#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/error.h"
#include "invariants/offload_rules.h"
#include "invariants/ruling.h"
#include "invariants/run_facts.h"
#include "invariants/tensor_grid.h"
#include "invariants/trace_checks.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

constexpr std::int64_t state_bytes = 12;  // an fp32 master and two fp32 moments

// P of every model coordinate: the elements of the distinct pieces its ranks trace.
std::map<std::string, std::int64_t> parameters(const Trace& trace) {
  const std::vector<std::int64_t> steps = tensor_steps(trace, "param");
  std::map<std::string, std::int64_t> out;
  if (steps.empty()) return out;
  std::map<int, std::string> coordinates;  // by rank
  std::map<std::string, std::map<std::pair<std::string, int>, std::int64_t>> sizes;
  for (const RankTrace& rank : trace.ranks) {
    coordinates[rank.rank] = model_coordinates(rank);
    for (const TensorRecord& record : rank.tensors) {
      if (record.what != "param" || record.step != steps.front()) continue;
      sizes[coordinates[rank.rank]][{record.place.name, record.place.piece}] =
          element_count(record.place.box.shape);
    }
  }
  for (const auto& [name, entries] : bytes_at(trace, steps.front(), "param")) {
    for (const HeldBytes& held : entries) {
      sizes[coordinates[held.rank]][{name, held.entry.place.piece}] =
          element_count(held.entry.place.box.shape);
    }
  }
  for (const auto& [at, pieces] : sizes) {
    for (const auto& [piece, size] : pieces) out[at] += size;
  }
  return out;
}

struct OptimizerBytes {
  std::int64_t least = 0, most = 0;
  std::int64_t units = 1;  // owned in shares on their own: each rounds to whole blocks
  bool any = false;
};

OptimizerBytes optimizer_bytes(const RankTrace& rank) {
  OptimizerBytes out;
  for (const Json& event : rank.others) {
    if (event.value("kind", "") != "memory" || !event.contains("bytes")) continue;
    const Json& bytes = event["bytes"];
    if (!bytes.is_object() || !bytes.contains("optimizer") ||
        !bytes["optimizer"].is_number_integer()) {
      continue;
    }
    auto value = bytes["optimizer"].get<std::int64_t>();
    if (bytes.contains("optimizer_offloaded") && bytes["optimizer_offloaded"].is_number_integer()) {
      value += bytes["optimizer_offloaded"].get<std::int64_t>();
    }
    out.least = out.any ? std::min(out.least, value) : value;
    out.most = out.any ? std::max(out.most, value) : value;
    if (bytes.contains("units") && bytes["units"].is_number_integer()) {
      out.units = std::max(out.units, bytes["units"].get<std::int64_t>());
    }
    out.any = true;
  }
  return out;
}

// The ranks of one model coordinate.
struct Sharers {
  std::int64_t ranks = 0;
  std::int64_t held = 0;
};

// How many ranks share one optimizer state, as the run claims, or why that is not known.
struct Claim {
  std::int64_t sharers = 0;
  std::string open;
};

Claim claimed_sharers(const Trace& trace) {
  const std::optional<std::string> text = text_fact(trace, "/layout");
  if (!text) return {0, "the run does not say its layout"};
  try {
    const Layout layout = parse_layout(*text);
    if (layout.zero == 0) return {1, ""};
    return {std::int64_t{layout.shard_size()} * layout.cp * layout.ep, ""};
  } catch (const Error& error) {  // somebody else's words
    return {0, fmt::format("the run's layout is not one of ours: {}: {}", error.place(),
                           error.detail())};
  }
}

}  // namespace

Verdict check_optimizer_bytes(const Trace& trace) {
  Verdict verdict =
      open_verdict("optimizer bytes",
                   "every rank holds 12 P / R optimizer bytes, up to less than one block of "
                   "1,024 elements for each unit that is shared on its own, and the R ranks "
                   "together hold 12 P exactly; of what is offloaded, no more than the window is "
                   "on the device, and nothing after a step");
  if (trace.ranks.empty()) return undecided(verdict, "no rank wrote a trace");
  if (kept_to(trace))
    return undecided(verdict, kept_text(trace) + ": P counts the elements of all");
  const std::map<std::string, std::int64_t> counts = parameters(trace);
  const auto [sharers, open] = claimed_sharers(trace);
  if (counts.empty()) return undecided(verdict, "no parameter was traced");
  if (!open.empty()) return undecided(verdict, open);
  if (static_cast<int>(trace.ranks.size()) != trace.world()) {
    return fails(verdict,
                 fmt::format("{} rank traces of a world of {}", trace.ranks.size(), trace.world()));
  }
  const OffloadClaim offload = offload_claim(trace);
  std::map<std::string, Sharers> groups;
  for (const RankTrace& rank : trace.ranks) {
    const std::string at = model_coordinates(rank);
    const auto count = counts.find(at);
    if (count == counts.end()) {
      return undecided(verdict, fmt::format("rank {} traced no parameter", rank.rank));
    }
    const OptimizerBytes held = optimizer_bytes(rank);
    if (!held.any) return undecided(verdict, fmt::format("rank {} traced no memory", rank.rank));
    if (const std::string text = offload_problem(rank, offload); !text.empty()) {
      return fails(verdict, text);
    }
    if (held.least != held.most) {
      return fails(verdict, fmt::format("rank {}: optimizer bytes change from {} to {}", rank.rank,
                                        held.least, held.most));
    }
    ++groups[at].ranks;
    groups[at].held += held.least;
    const std::int64_t total = state_bytes * count->second;
    const std::int64_t above = held.least * sharers - total;  // R x (held - 12 P / R), in integers
    if (std::abs(above) < state_bytes * block_elements * sharers * held.units) continue;
    return fails(verdict,
                 fmt::format("rank {} holds {} optimizer bytes where 12 P / R is {} (P = {}, "
                             "R = {})",
                             rank.rank, held.least, total / sharers, count->second, sharers));
  }
  for (const auto& [at, group] : groups) {
    if (group.ranks % sharers != 0) {
      return fails(verdict, fmt::format("{} ranks that hold the same pieces cannot share a state "
                                        "by {}",
                                        group.ranks, sharers));
    }
    const std::int64_t count = counts.at(at), total = state_bytes * count;
    const std::int64_t expected = total * (group.ranks / sharers);
    if (group.held != expected) {
      return fails(verdict, fmt::format("the ranks together hold {} optimizer bytes, not {} (P = "
                                        "{}, R = {})",
                                        group.held, expected, count, sharers));
    }
    verdict.notes.push_back(
        fmt::format("P = {}, R = {}: 12 P / R = {:.1f} bytes a rank, {} in all", count, sharers,
                    static_cast<double>(total) / static_cast<double>(sharers), group.held));
  }
  return passes(verdict);
}

}  // namespace shardproof

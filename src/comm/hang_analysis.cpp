// hang_analysis: what lies at the ends of the graph, in the order of how much it explains.
#include "comm/hang_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/check.h"
#include "comm/hang_graph.h"
#include "comm/sides.h"

namespace shardproof {

namespace {

using internal::HangGraph;
using internal::Standing;

// The kinds in the order in which they are told: the first that holds is why the others hold.
constexpr std::array<HangKind, 11> order{
    HangKind::mismatch,     HangKind::stopped,       HangKind::ended,   HangKind::skipped,
    HangKind::other_branch, HangKind::deadlock,      HangKind::stalled, HangKind::silent,
    HangKind::straggler,    HangKind::slow_transfer, HangKind::none};

std::size_t place_in_order(HangKind kind) {
  return static_cast<std::size_t>(std::find(order.begin(), order.end(), kind) - order.begin());
}

void sort_unique(std::vector<int>& ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
}

const char* verb(const std::vector<int>& ranks, const char* one, const char* many) {
  return ranks.size() == 1 ? one : many;
}

class Explainer {
 public:
  Explainer(const FlightRecords& records, const HangLimits& limits)
      : graph_(records), limits_(limits) {}

  HangVerdict best(std::optional<int> of_rank) const {
    HangVerdict best;
    for (const Standing& start : graph_.standing()) {
      if (of_rank && start.rank->rank != *of_rank) continue;
      HangVerdict each = explain(start);
      const bool better = place_in_order(each.kind) < place_in_order(best.kind) ||
                          (each.kind == best.kind && each.waiting.size() > best.waiting.size());
      if (better) best = std::move(each);
    }
    best.text = best.summary;
    for (const auto& [number, rank] : graph_.ranks()) best.text += "\n  " + rank_line(*rank);
    return best;
  }

 private:
  HangVerdict explain(const Standing& start) const {
    const HangGraph::Reached reached = graph_.reach(start);
    HangVerdict verdict;
    verdict.edges = reached.edges;
    if (differs(reached, verdict)) return verdict;
    if (ends_for_good(reached, verdict)) return verdict;
    if (goes_round(start, verdict)) return verdict;
    if (ends_in_motion(reached, verdict)) return verdict;
    transfers(start, verdict);
    return verdict;
  }

  // The operation that the verdict is about, and all that stand in it.
  void about(HangVerdict& verdict, const Standing& standing) const {
    verdict.group = standing.operation->group;
    verdict.operation = name_of(*standing.operation);
    for (const Standing& each : graph_.standing()) {
      if (each.numbering != standing.numbering ||
          each.operation->sequence != standing.operation->sequence) {
        continue;
      }
      verdict.waiting.push_back(each.rank->rank);
      verdict.seconds = std::max(verdict.seconds, each.operation->waited_for);
    }
    sort_unique(verdict.waiting);
  }

  std::string in_operation(const HangVerdict& verdict) const {
    return fmt::format("{}, in which {} {} waited {:.1f} s", verdict.operation,
                       ranks_text(verdict.waiting), verb(verdict.waiting, "has", "have"),
                       verdict.seconds);
  }

  bool differs(const HangGraph::Reached& reached, HangVerdict& verdict) const {
    for (const Standing* const each : reached.standing) {
      std::vector<int> odd;
      const std::string difference = graph_.difference(*each, odd);
      if (difference.empty()) continue;
      verdict.kind = HangKind::mismatch;
      verdict.certain = true;
      verdict.culprits = std::move(odd);
      sort_unique(verdict.culprits);
      about(verdict, *each);
      verdict.summary = fmt::format("the ranks disagree on {} #{}: {}", verdict.group,
                                    each->operation->sequence, difference);
      return true;
    }
    return false;
  }

  // Ranks that will not come, or have left in the middle.
  bool ends_for_good(const HangGraph::Reached& reached, HangVerdict& verdict) const {
    for (const RankLife life : {RankLife::stopped, RankLife::ended}) {
      const Standing* in = nullptr;
      bool missing = true;
      for (const HangGraph::End& end : reached.ends) {
        if (graph_.life(end.rank) != life || (in != nullptr && end.in != in)) continue;
        in = end.in;
        verdict.culprits.push_back(end.rank);
      }
      for (const Standing* const each : reached.standing) {
        if (in != nullptr) break;
        for (const int rank : left_in(*each, life)) verdict.culprits.push_back(rank);
        if (verdict.culprits.empty()) continue;
        in = each;
        missing = false;
      }
      if (in == nullptr) continue;
      sort_unique(verdict.culprits);
      verdict.kind = life == RankLife::stopped ? HangKind::stopped : HangKind::ended;
      verdict.certain = true;
      about(verdict, *in);
      verdict.summary = fmt::format(
          "{} {} {}: {} {}", ranks_text(verdict.culprits), verb(verdict.culprits, "is", "are"),
          life == RankLife::stopped ? "stopped (SIGSTOP or a debugger)" : "gone",
          missing ? "missing from" : "in the middle of", in_operation(verdict));
      return true;
    }
    return false;
  }

  // Members that came to an operation and are now `life`, before it ended for them.
  std::vector<int> left_in(const Standing& standing, RankLife life) const {
    std::vector<int> left;
    for (const int rank : graph_.members(*standing.operation)) {
      if (rank == standing.rank->rank || graph_.life(rank) != life) continue;
      const OperationRecord* const record = graph_.record_of(rank, standing);
      if (record != nullptr && record->state != OperationRecord::State::completed) {
        left.push_back(rank);
      }
    }
    return left;
  }

  bool goes_round(const Standing& start, HangVerdict& verdict) const {
    const std::vector<const Standing*> cycle = graph_.cycle_from(start);
    if (cycle.empty()) return false;
    verdict.certain = true;
    std::string circle;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const int next = cycle[(i + 1) % cycle.size()]->rank->rank;
      verdict.cycle.push_back(cycle[i]->rank->rank);
      circle += fmt::format("{}rank {} waits in {} for rank {}", i == 0 ? "" : ", ",
                            verdict.cycle.back(), describe(*cycle[i]->operation), next);
      if (graph_.went_past(*cycle[i], next)) {
        if (verdict.kind == HangKind::none) about(verdict, *cycle[i]);
        verdict.kind = HangKind::skipped;
        verdict.culprits.push_back(next);
      }
    }
    if (verdict.kind == HangKind::skipped) {
      sort_unique(verdict.culprits);
      verdict.summary = fmt::format("{} went past {} without taking part: {}",
                                    ranks_text(verdict.culprits), in_operation(verdict), circle);
      return true;
    }
    const Standing& of_most = *most_stand_in();
    about(verdict, of_most);
    std::set<int> standing;
    for (const Standing& each : graph_.standing()) standing.insert(each.rank->rank);
    const auto elsewhere = [&](int rank) {
      return !std::binary_search(verdict.waiting.begin(), verdict.waiting.end(), rank);
    };
    if (2 * verdict.waiting.size() > standing.size()) {
      std::copy_if(verdict.cycle.begin(), verdict.cycle.end(), std::back_inserter(verdict.culprits),
                   elsewhere);
    }
    verdict.kind = verdict.culprits.empty() ? HangKind::deadlock : HangKind::other_branch;
    sort_unique(verdict.culprits);
    if (verdict.kind == HangKind::deadlock) {
      about_again(verdict, *cycle.front());
      verdict.summary = "deadlock: " + circle;
    } else {
      verdict.summary = fmt::format("{} took another branch than {}: {}",
                                    ranks_text(verdict.culprits), in_operation(verdict), circle);
    }
    return true;
  }

  void about_again(HangVerdict& verdict, const Standing& standing) const {
    verdict.waiting.clear();
    verdict.seconds = 0;
    about(verdict, standing);
  }

  const Standing* most_stand_in() const {
    std::map<std::pair<std::string, std::uint64_t>, std::size_t> count;
    for (const Standing& each : graph_.standing()) {
      ++count[{each.numbering, each.operation->sequence}];
    }
    const Standing* most = &graph_.standing().front();
    for (const Standing& each : graph_.standing()) {
      if (count[{each.numbering, each.operation->sequence}] >
          count[{most->numbering, most->operation->sequence}]) {
        most = &each;
      }
    }
    return most;
  }

  // Ranks that compute, or do not say what they do.
  bool ends_in_motion(const HangGraph::Reached& reached, HangVerdict& verdict) const {
    const HangGraph::End* chosen = nullptr;
    HangKind kind = HangKind::none;
    for (const HangGraph::End& end : reached.ends) {
      const HangKind each = kind_of(end);
      if (chosen != nullptr && place_in_order(each) >= place_in_order(kind)) continue;
      chosen = &end;
      kind = each;
    }
    if (chosen == nullptr) return false;
    for (const HangGraph::End& end : reached.ends) {
      if (end.in == chosen->in && kind_of(end) == kind) verdict.culprits.push_back(end.rank);
    }
    sort_unique(verdict.culprits);
    verdict.kind = kind;
    verdict.certain = kind == HangKind::stalled;
    about(verdict, *chosen->in);
    const RankRecords* const rank = graph_.find(verdict.culprits.front());
    const double silence = rank == nullptr ? 0 : rank->pulse_ago;
    const std::string who = ranks_text(verdict.culprits);
    const char* const is = verb(verdict.culprits, "is", "are");
    if (kind == HangKind::stalled) {
      verdict.summary = fmt::format(
          "{} {} hung outside communication (no sign of progress for {:.1f} s): missing from {}",
          who, is, silence, in_operation(verdict));
    } else if (kind == HangKind::silent) {
      verdict.summary =
          fmt::format("{} {} not answering: missing from {}", who, is, in_operation(verdict));
    } else if (kind == HangKind::skipped) {
      verdict.summary =
          fmt::format("{} {} at {}, past {}", who, is, rank->at.text(), in_operation(verdict));
    } else {
      verdict.summary = fmt::format(
          "{} {} slow: {:.1f} s behind (last sign of progress {:.1f} s ago), missing from {}", who,
          is, verdict.seconds, silence, in_operation(verdict));
    }
    return true;
  }

  HangKind kind_of(const HangGraph::End& end) const {
    const RankRecords* const rank = graph_.find(end.rank);
    if (rank == nullptr || rank->life == RankLife::silent) return HangKind::silent;
    if (rank->pulse_ago >= limits_.stall_seconds) return HangKind::stalled;
    return graph_.went_past(*end.in, end.rank) ? HangKind::skipped : HangKind::straggler;
  }

  void transfers(const Standing& start, HangVerdict& verdict) const {
    verdict.kind = HangKind::slow_transfer;
    about(verdict, start);
    verdict.summary = "every rank has come to " + in_operation(verdict) + ", which has not ended";
  }

  std::string rank_line(const RankRecords& rank) const {
    std::string line = fmt::format("rank {}", rank.rank);
    if (rank.at.known()) line += " at " + rank.at.text();
    const char* const lives[] = {"", " is stopped", " is gone", " does not answer"};
    line += lives[static_cast<std::size_t>(rank.life)];
    bool stands = false;
    for (const Standing& each : graph_.standing()) {
      if (each.rank != &rank) continue;
      stands = true;
      line += fmt::format("{} waits {:.1f} s in {}", line.back() == 's' ? "," : ":",
                          each.operation->waited_for, describe(*each.operation));
      if (!each.missing.empty()) line += " for " + ranks_text(each.missing);
    }
    if (!stands && rank.life == RankLife::running) {
      line += fmt::format(": computes (last sign of progress {:.1f} s ago)", rank.pulse_ago);
    }
    for (auto last = rank.operations.rbegin(); last != rank.operations.rend(); ++last) {
      if (last->waited && last->state == OperationRecord::State::started) continue;
      const bool under_way = last->state == OperationRecord::State::started;
      line += fmt::format("; last {} {} {:.1f} s ago", describe(*last),
                          under_way                                          ? "started"
                          : last->state == OperationRecord::State::completed ? "completed"
                                                                             : "failed",
                          under_way ? last->started_ago : last->ended_ago);
      break;
    }
    return line;
  }

  const HangGraph graph_;
  const HangLimits limits_;
};

const RankRecords* find(const FlightRecords& records, int rank) {
  const auto found = std::find_if(records.ranks.begin(), records.ranks.end(),
                                  [rank](const RankRecords& each) { return each.rank == rank; });
  return found == records.ranks.end() ? nullptr : &*found;
}

}  // namespace

std::string_view name(HangKind kind) {
  switch (kind) {
    case HangKind::none:
      return "none";
    case HangKind::straggler:
      return "straggler";
    case HangKind::stalled:
      return "stalled";
    case HangKind::stopped:
      return "stopped";
    case HangKind::ended:
      return "ended";
    case HangKind::skipped:
      return "skipped";
    case HangKind::other_branch:
      return "other branch";
    case HangKind::deadlock:
      return "deadlock";
    case HangKind::mismatch:
      return "mismatch";
    case HangKind::silent:
      return "silent";
    case HangKind::slow_transfer:
      return "slow transfer";
  }
  SP_CHECK(false, "no such kind of hang");
}

HangVerdict analyse_hang(const FlightRecords& records, const HangLimits& limits,
                         std::optional<int> of_rank) {
  return Explainer(records, limits).best(of_rank);
}

bool same_standstill(const FlightRecords& first, const FlightRecords& second,
                     const HangVerdict& verdict) {
  std::set<int> involved(verdict.culprits.begin(), verdict.culprits.end());
  involved.insert(verdict.waiting.begin(), verdict.waiting.end());
  for (const WaitsFor& edge : verdict.edges) involved.insert({edge.from, edge.to});
  return std::all_of(involved.begin(), involved.end(), [&](int rank) {
    const RankRecords* const before = find(first, rank);
    const RankRecords* const after = find(second, rank);
    if (before == nullptr || after == nullptr) return before == after;
    if (before->life != after->life) return false;
    return before->life != RankLife::running || before->pulses == after->pulses;
  });
}

}  // namespace shardproof

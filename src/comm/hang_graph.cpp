// hang_graph: walking along who waits for whom.
#include "comm/hang_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "comm/sides.h"

namespace shardproof::internal {

namespace {

using State = OperationRecord::State;

bool moves_equal_counts(const OperationRecord& operation) {
  return operation.op == "all_reduce" || operation.op == "reduce" || operation.op == "broadcast" ||
         operation.is_message();
}

std::string counts_text(const OperationRecord& operation) {
  const auto& counts =
      operation.send_counts.empty() ? operation.recv_counts : operation.send_counts;
  std::string text;
  for (const std::uint64_t count : counts)
    text += (text.empty() ? "" : " ") + std::to_string(count);
  return text;
}

// What two ends of a message, or all members of a collective, must have in common.
std::vector<std::pair<const char*, std::string>> fields_of(const OperationRecord& operation) {
  std::vector<std::pair<const char*, std::string>> fields{
      {"operation", operation.is_message() ? "message" : operation.op},
      {"dtype", operation.dtype},
      {"reduce", operation.reduce},
      {"root", std::to_string(operation.root)}};
  if (moves_equal_counts(operation)) fields.emplace_back("count", counts_text(operation));
  return fields;
}

}  // namespace

HangGraph::HangGraph(const FlightRecords& records) {
  for (const RankRecords& rank : records.ranks) ranks_[rank.rank] = &rank;
  for (const auto& [number, rank] : ranks_) {
    for (const OperationRecord& operation : rank->operations) {
      if (!operation.waited || operation.state != State::started) continue;
      standing_.push_back({rank, &operation, numbering_of(operation, number)});
    }
  }
  for (Standing& each : standing_) find_missing(each);
}

const RankRecords* HangGraph::find(int rank) const {
  const auto found = ranks_.find(rank);
  return found == ranks_.end() ? nullptr : found->second;
}

RankLife HangGraph::life(int rank) const {
  const RankRecords* const known = find(rank);
  return known == nullptr ? RankLife::silent : known->life;
}

bool HangGraph::came(int rank, const std::string& numbering, std::uint64_t sequence) const {
  const RankRecords* const known = find(rank);
  if (known == nullptr) return false;
  if (const auto count = known->issued.find(numbering); count != known->issued.end()) {
    return count->second > sequence;
  }
  return std::any_of(known->operations.begin(), known->operations.end(), [&](const auto& each) {
    return each.sequence >= sequence && numbering_of(each, rank) == numbering;
  });
}

std::vector<int> HangGraph::members(const OperationRecord& operation) const {
  if (operation.is_message()) return {operation.peer};
  if (!operation.members.empty()) return operation.members;
  std::vector<int> seen;
  for (const auto& [number, rank] : ranks_) {
    if (std::any_of(rank->operations.begin(), rank->operations.end(),
                    [&](const auto& each) { return each.group == operation.group; })) {
      seen.push_back(number);
    }
  }
  return seen;
}

void HangGraph::find_missing(Standing& standing) const {
  for (const int member : members(*standing.operation)) {
    if (member == standing.rank->rank) continue;
    if (!came(member, standing.numbering, standing.operation->sequence)) {
      standing.missing.push_back(member);
    }
  }
  std::sort(standing.missing.begin(), standing.missing.end());
}

const Standing* HangGraph::standing_of(int rank, const std::string& group) const {
  const RankRecords* const known = find(rank);
  if (known == nullptr || known->life != RankLife::running) return nullptr;
  // A group that the rank has not used is taken for its parent's thread's.
  int lane = 0;
  for (std::string name = group; !name.empty();) {
    if (const auto found = known->lanes.find(name); found != known->lanes.end()) {
      lane = found->second;
      break;
    }
    const std::size_t slash = name.rfind('/');
    name.resize(slash == std::string::npos ? 0 : slash);
  }
  for (const Standing& each : standing_) {
    if (each.rank == known && each.operation->lane == lane) return &each;
  }
  return nullptr;
}

HangGraph::Reached HangGraph::reach(const Standing& start) const {
  Reached reached{{&start}, {}, {}};
  for (std::size_t i = 0; i < reached.standing.size(); ++i) {
    const Standing& each = *reached.standing[i];
    for (const int rank : each.missing) {
      reached.edges.push_back({each.rank->rank, rank, name_of(*each.operation)});
      const Standing* const next = standing_of(rank, each.operation->group);
      if (next == nullptr) {
        reached.ends.push_back({&each, rank});
      } else if (std::find(reached.standing.begin(), reached.standing.end(), next) ==
                 reached.standing.end()) {
        reached.standing.push_back(next);
      }
    }
  }
  return reached;
}

// A walk that always goes on to a rank that stands: it returns to itself, or there is no circle.
std::vector<const Standing*> HangGraph::cycle_from(const Standing& start) const {
  std::vector<const Standing*> path;
  std::set<const Standing*> finished;
  std::vector<const Standing*> cycle;
  const auto visit = [&](const auto& self, const Standing* at) -> bool {
    if (const auto again = std::find(path.begin(), path.end(), at); again != path.end()) {
      cycle.assign(again, path.end());
      return true;
    }
    if (finished.contains(at)) return false;
    path.push_back(at);
    for (const int rank : at->missing) {
      const Standing* const next = standing_of(rank, at->operation->group);
      if (next != nullptr && self(self, next)) return true;
    }
    path.pop_back();
    finished.insert(at);
    return false;
  };
  visit(visit, &start);
  if (cycle.empty()) return cycle;
  const auto lowest = std::min_element(
      cycle.begin(), cycle.end(), [](auto* a, auto* b) { return a->rank->rank < b->rank->rank; });
  std::rotate(cycle.begin(), lowest, cycle.end());
  return cycle;
}

// Only of the first thread: the others have no place of their own.
bool HangGraph::went_past(const Standing& waiting, int rank) const {
  const RankRecords* const known = find(rank);
  return known != nullptr && waiting.operation->lane == 0 &&
         known->at.is_after(waiting.operation->at);
}

const OperationRecord* HangGraph::record_of(int rank, const Standing& standing) const {
  const RankRecords* const known = find(rank);
  if (known == nullptr) return nullptr;
  for (const OperationRecord& each : known->operations) {
    if (each.sequence == standing.operation->sequence &&
        numbering_of(each, rank) == standing.numbering) {
      return &each;
    }
  }
  return nullptr;
}

std::string HangGraph::difference(const Standing& standing, std::vector<int>& odd) const {
  std::vector<int> both = members(*standing.operation);
  const int self = standing.rank->rank;
  if (std::find(both.begin(), both.end(), self) == both.end()) both.push_back(self);
  std::sort(both.begin(), both.end());
  std::map<std::string, std::vector<std::pair<int, std::string>>> values;
  for (const int rank : both) {
    const OperationRecord* const record = record_of(rank, standing);
    if (record == nullptr) continue;
    for (const auto& [field, value] : fields_of(*record)) values[field].emplace_back(rank, value);
  }
  std::string text;
  for (const char* field : {"operation", "dtype", "reduce", "root", "count"}) {
    const auto found = values.find(field);
    if (found == values.end()) continue;
    const std::string line = sides(field, found->second);
    if (line.empty()) continue;
    text += (text.empty() ? "" : ", ") + line;
    std::map<std::string, std::vector<int>> by_value;
    for (const auto& [rank, value] : found->second) by_value[value].push_back(rank);
    std::size_t most = 0;
    for (const auto& [value, ranks] : by_value) most = std::max(most, ranks.size());
    for (const auto& [value, ranks] : by_value) {
      if (ranks.size() < most) odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    if (std::string_view(field) == "operation") break;  // the rest differs because of it
  }
  return text;
}

}  // namespace shardproof::internal

// hang_graph: who stands in which operation and waits for whom, read from flight records. Internal
// to hang_analysis. Thread rule: pure; the records must outlive the graph.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "comm/flight_records.h"
#include "comm/hang_analysis.h"

namespace shardproof::internal {

// A thread of a rank that stands in an operation.
struct Standing {
  const RankRecords* rank = nullptr;
  const OperationRecord* operation = nullptr;
  std::string numbering{};
  std::vector<int> missing{};  // members that have not come, ascending
};

class HangGraph {
 public:
  explicit HangGraph(const FlightRecords& records);
  HangGraph(const HangGraph&) = delete;

  // A rank that is missing from an operation and does not stand in another.
  struct End {
    const Standing* in = nullptr;
    int rank = -1;
  };
  struct Reached {
    std::vector<const Standing*> standing;
    std::vector<End> ends;
    std::vector<WaitsFor> edges;
  };
  Reached reach(const Standing& start) const;
  // Standings of which each waits for the next and the last for the first, from the lowest rank on;
  // empty: no circle can be reached.
  std::vector<const Standing*> cycle_from(const Standing& start) const;

  const std::vector<Standing>& standing() const { return standing_; }  // by rank
  const std::map<int, const RankRecords*>& ranks() const { return ranks_; }
  const RankRecords* find(int rank) const;
  RankLife life(int rank) const;  // of a rank without records: silent
  std::vector<int> members(const OperationRecord& operation) const;
  // The record of `rank` in the same operation; null: none is kept.
  const OperationRecord* record_of(int rank, const Standing& standing) const;
  bool went_past(const Standing& waiting, int rank) const;
  // In what the members' calls differ, in words, and who is in the minority; "": they agree.
  std::string difference(const Standing& standing, std::vector<int>& odd) const;

 private:
  bool came(int rank, const std::string& numbering, std::uint64_t sequence) const;
  void find_missing(Standing& standing) const;
  // Where the thread of `rank` that would come to `group` stands; null: it does not.
  const Standing* standing_of(int rank, const std::string& group) const;

  std::map<int, const RankRecords*> ranks_;
  std::vector<Standing> standing_;
};

}  // namespace shardproof::internal

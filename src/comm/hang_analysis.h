// hang_analysis: from the flight records of all ranks to who is to blame for a wait: a pure
// function. It follows who waits for whom to where that ends: a stopped or ended rank, a circle, a
// rank that went another way, an endless loop, or merely a slow rank.
// A verdict is `certain` when nothing that the waiting ranks do can end the wait: where records are
// those of a running job, that holds only if they describe one instant; see same_standstill.
// Not known: what a rank computes between its operations; whether a silent rank is alive.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/flight_records.h"

namespace shardproof {

enum class HangKind {
  none,          // nobody waits for anybody
  straggler,     // waited for; it moves, or has not stood still for long
  stalled,       // it computes, and has shown no sign of progress for stall_seconds
  stopped,       // its process is stopped
  ended,         // its process has ended
  skipped,       // it has gone past the operation without taking part
  other_branch,  // it waits in another operation, most ranks in this one
  deadlock,      // ranks wait for each other in a circle
  mismatch,      // all came, with different calls
  silent,        // it did not answer
  slow_transfer  // all came and agree; the data does not move yet
};
std::string_view name(HangKind kind);

struct HangLimits {
  double stall_seconds = 30;
};

// rank `from` stands in `operation` and waits for `to`, which has not come.
struct WaitsFor {
  int from = -1;
  int to = -1;
  std::string operation;
  bool operator==(const WaitsFor&) const = default;
};

struct HangVerdict {
  HangKind kind = HangKind::none;
  bool certain = false;
  std::vector<int> culprits;  // ascending; empty where the records cannot say (a plain circle)
  std::vector<int> waiting;   // the ranks that stand in the operation below
  std::string group;          // of the operation that does not end
  std::string operation;      // its name_of
  double seconds = 0;         // the longest wait in it
  std::vector<int> cycle;     // each waits for the next, the last for the first
  std::vector<WaitsFor> edges;
  std::string summary;  // one line: what, who, why
  std::string text;     // the summary, then a line for each rank: where it is, what it did last
};

// `of_rank`: explain the wait of this rank alone; without it the one that explains most.
HangVerdict analyse_hang(const FlightRecords& records, const HangLimits& limits = {},
                         std::optional<int> of_rank = std::nullopt);

// Do two looks, of which the second began when the first had ended, show the same operations and
// pulses on every rank that the verdict of the second rests on? Then there was an instant between
// them that both describe.
bool same_standstill(const FlightRecords& first, const FlightRecords& second,
                     const HangVerdict& verdict);

}  // namespace shardproof

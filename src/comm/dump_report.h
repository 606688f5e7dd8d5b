// dump_report: what dumps of all ranks, taken when a job failed or hung, say together: per group
// the last operation that each rank has completed, the first on which ranks disagree (be it
// completed: some libraries compute with it), who is missing from what, who waits for whom, and the
// cycle. A rank stands in the first operation of each numbering that did not complete; a rank that
// stands nowhere counts as gone, since its dump is all that is left of it. Not known: what ranks
// without a dump did; without known members a group is the ranks that name it. Thread rule: pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "comm/flight_dump.h"
#include "comm/hang_analysis.h"

namespace shardproof {

struct GroupProgress {
  std::string group;
  std::vector<int> members;
  bool members_known = false;
  std::map<int, std::int64_t> issued;     // by rank: the last number; -1: none
  std::map<int, std::int64_t> completed;  // of those, the last that completed
};

struct DumpReport {
  enum class Finding : std::uint8_t { nothing, named, undecided };
  Finding finding = Finding::nothing;
  std::string summary;                  // one line
  std::vector<std::string> mismatches;  // the first of each numbering, in words
  HangVerdict hang;
  std::vector<int> absent;  // members without a dump
  std::vector<GroupProgress> groups;

  std::string text() const;
  Json to_json() const;
};

DumpReport report_on(std::vector<FlightDump> dumps);

}  // namespace shardproof

// group_progress: how far each member of each group has come, from flight records. Thread rule:
// pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "comm/flight_records.h"

namespace shardproof {

struct GroupProgress {
  std::string group;
  std::vector<int> members;  // world ranks, ascending
  // Of the group's collectives, by member: the highest number issued, and the highest that has
  // ended well; -1: none is known.
  std::vector<std::int64_t> issued;
  std::vector<std::int64_t> completed;
};

// One for each group that has a collective, by name.
std::vector<GroupProgress> progress_of(const FlightRecords& records);

}  // namespace shardproof

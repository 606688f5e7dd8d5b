// group_progress: the highest numbers in the records.
#include "comm/group_progress.h"

#include <algorithm>
#include <map>
#include <set>

namespace shardproof {

namespace {

bool is_collective(const OperationRecord& operation) {
  return !operation.is_message() && operation.op != "split";
}

}  // namespace

std::vector<GroupProgress> progress_of(const FlightRecords& records) {
  std::map<std::string, std::set<int>> members;
  std::map<std::pair<std::string, int>, std::pair<std::int64_t, std::int64_t>> highest;
  for (const RankRecords& rank : records.ranks) {
    for (const OperationRecord& operation : rank.operations) {
      if (!is_collective(operation)) continue;
      auto& group = members[operation.group];
      group.insert(operation.members.begin(), operation.members.end());
      group.insert(rank.rank);
      const auto entry = highest.try_emplace({operation.group, rank.rank}, -1, -1).first;
      auto& [issued, completed] = entry->second;
      const auto sequence = static_cast<std::int64_t>(operation.sequence);
      issued = std::max(issued, sequence);
      if (operation.state == OperationRecord::State::completed) {
        completed = std::max(completed, sequence);
      }
    }
  }
  std::vector<GroupProgress> all;
  for (const auto& [group, ranks] : members) {
    GroupProgress& progress = all.emplace_back();
    progress.group = group;
    for (const int rank : ranks) {
      const auto found = highest.find({group, rank});
      const bool known = found != highest.end();
      progress.members.push_back(rank);
      progress.issued.push_back(known ? found->second.first : -1);
      progress.completed.push_back(known ? found->second.second : -1);
    }
  }
  return all;
}

}  // namespace shardproof

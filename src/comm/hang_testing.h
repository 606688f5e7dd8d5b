// hang_testing: records of operations for the tests of hang analysis.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "comm/flight_records.h"

namespace shardproof::hang_testing {

using Ranks = std::vector<int>;

inline OperationRecord collective(const std::string& group, Ranks members, std::uint64_t sequence,
                                  const std::string& op = "all_reduce") {
  OperationRecord record;
  record.group = group;
  record.members = std::move(members);
  record.sequence = sequence;
  record.op = op;
  record.dtype = "f32";
  record.send_counts = {8};
  return record;
}

inline OperationRecord message(const std::string& op, int peer, std::uint64_t sequence) {
  OperationRecord record;
  record.group = "world";
  record.op = op;
  record.peer = peer;
  record.tag = 7;
  record.sequence = sequence;
  record.dtype = "f32";
  record.send_counts = {8};
  return record;
}

inline OperationRecord waited(OperationRecord record, double seconds = 1.5) {
  record.waited = true;
  record.waited_for = seconds;
  record.started_ago = seconds;
  return record;
}

inline OperationRecord completed(OperationRecord record) {
  record.state = OperationRecord::State::completed;
  record.ended_ago = 2;
  return record;
}

}  // namespace shardproof::hang_testing

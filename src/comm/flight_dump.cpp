// flight_dump: our records as PyTorch's entries.
#include "comm/flight_dump.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/pickle.h"

namespace shardproof {

namespace {

using State = OperationRecord::State;

constexpr const char* written_version = "2.10";

std::int64_t sum(const std::vector<std::uint64_t>& counts) {
  return static_cast<std::int64_t>(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

bool is_even(const std::vector<std::uint64_t>& counts) {
  return std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
}

// The rank's place in the group that the entry is of.
std::string profiling_name(const OperationRecord& operation, int rank) {
  const bool first = rank < operation.peer;
  if (operation.op == "send") return fmt::format("nccl:send {}->{}", first ? 0 : 1, first ? 1 : 0);
  if (operation.op == "recv") return fmt::format("nccl:recv {}<-{}", first ? 0 : 1, first ? 1 : 0);
  if (operation.op == "barrier") return "nccl:all_reduce_barrier";
  if (operation.op == "all_gather" && !is_even(operation.recv_counts)) {
    return "nccl:ALLGATHER_coalesced";
  }
  if (operation.op == "reduce_scatter" && !is_even(operation.send_counts)) {
    return "nccl:REDUCE_SCATTER_coalesced";
  }
  constexpr std::array known{"broadcast",  "reduce", "all_reduce", "reduce_scatter",
                             "all_gather", "gather", "scatter",    "all_to_all"};
  const bool is_known = std::find(known.begin(), known.end(), operation.op) != known.end();
  return is_known ? "nccl:" + operation.op : "nccl:coalesced";
}

std::string torch_dtype(const std::string& dtype) {
  constexpr std::array<std::pair<const char*, const char*>, 7> names{{{"F32", "Float"},
                                                                      {"F64", "Double"},
                                                                      {"BF16", "BFloat16"},
                                                                      {"F16", "Half"},
                                                                      {"I32", "Int"},
                                                                      {"I64", "Long"},
                                                                      {"U8", "Byte"}}};
  for (const auto& [ours, theirs] : names) {
    if (dtype == ours) return theirs;
  }
  return dtype;
}

// What is the same on all ranks of an uneven collective, in place of what each has.
std::int64_t shown_count(const OperationRecord& operation, bool input) {
  const bool uneven = profiling_name(operation, 0).ends_with("_coalesced");
  if (uneven)
    return sum(operation.op == "all_gather" ? operation.recv_counts : operation.send_counts);
  if (operation.op == "all_gather" && input) return sum(operation.send_counts);
  const bool same = operation.is_message() || operation.op == "broadcast" ||
                    operation.op == "reduce" || operation.op == "all_reduce";
  const bool from_send = same ? !operation.send_counts.empty() : input;
  return sum(from_send ? operation.send_counts : operation.recv_counts);
}

struct Groups {
  Json config = Json::object();
  Json status = Json::object();
  std::map<std::string, int> ids;

  int id_of(const std::string& name, const std::vector<int>& ranks) {
    const auto [found, is_new] = ids.emplace(name, static_cast<int>(ids.size()));
    if (is_new) {
      config[name] = {{"name", name},
                      {"desc", "undefined"},
                      {"ranks", fmt::format("[{}]", fmt::join(ranks, ", "))}};
      status[std::to_string(found->second)] = {{"last_enqueued_collective", -1},
                                               {"last_started_collective", -1},
                                               {"last_completed_collective", -1}};
    }
    return found->second;
  }
};

// The number of an operation among those of its group: from 1 on, as PyTorch counts.
std::int64_t number_of(const OperationRecord& operation, int rank) {
  const auto sequence = static_cast<std::int64_t>(operation.sequence);
  if (!operation.is_message()) return sequence + 1;
  const bool down = (rank < operation.peer) != (operation.op == "send");
  return (sequence + 1) << 32 | static_cast<std::int64_t>(operation.tag) << 1 | (down ? 1 : 0);
}

std::string group_of(const OperationRecord& operation, int rank) {
  if (!operation.is_message()) return numbering_of(operation, rank);
  const auto [low, high] = std::minmax(rank, operation.peer);
  return fmt::format("{} messages {}-{}", operation.group, low, high);
}

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * 1e9);
}

Json entry_of(const OperationRecord& operation, int rank, std::int64_t wall_ns, Groups& groups) {
  const std::string group = group_of(operation, rank);
  const std::vector<int> pair{std::min(rank, operation.peer), std::max(rank, operation.peer)};
  const int id = groups.id_of(group, operation.is_message() ? pair : operation.members);
  const std::int64_t number = number_of(operation, rank);
  const bool completed = operation.state == State::completed;
  const std::int64_t started = wall_ns - nanoseconds(operation.started_ago);
  const std::int64_t ended = wall_ns - nanoseconds(operation.ended_ago);
  Json& status = groups.status[std::to_string(id)];
  status["last_enqueued_collective"] = number;
  status["last_started_collective"] = number;
  if (completed) status["last_completed_collective"] = number;
  Json sizes_in = Json::array(), sizes_out = Json::array(), dtypes = Json::array();
  if (!operation.dtype.empty()) {
    sizes_in.push_back(Json::array({shown_count(operation, true)}));
    sizes_out.push_back(Json::array({shown_count(operation, false)}));
    dtypes.push_back(torch_dtype(operation.dtype));
  }
  Json entry{{"frames", Json::array()},
             {"pg_id", id},
             {"process_group", {group, "undefined"}},
             {"collective_seq_id", number},
             {"p2p_seq_id", operation.is_message() ? number : 0},
             {"profiling_name", profiling_name(operation, rank)},
             {"time_created_ns", started},
             {"input_sizes", sizes_in},
             {"input_dtypes", dtypes},
             {"output_sizes", sizes_out},
             {"output_dtypes", dtypes},
             {"state", completed ? "completed" : "started"},
             {"time_discovered_started_ns", started},
             {"time_discovered_completed_ns", completed ? Json(ended) : Json()},
             {"retired", operation.state != State::started},
             {"timeout_ms", 0},
             {"is_p2p", operation.is_message()}};
  if (completed) entry["duration_ms"] = (operation.started_ago - operation.ended_ago) * 1e3;
  return entry;
}

}  // namespace

Json to_flight_dump(const RankRecords& records, std::int64_t wall_ns) {
  Groups groups;
  Json entries = Json::array();
  // Operations that the ring has lost count too: PyTorch aligns ranks by these numbers.
  std::uint64_t issued = 0;
  for (const auto& [numbering, count] : records.issued) issued += count;
  std::uint64_t id = issued - std::min<std::uint64_t>(issued, records.operations.size());
  for (const OperationRecord& operation : records.operations) {
    Json entry{{"record_id", id}, {"op_id", id}};
    entry.update(entry_of(operation, records.rank, wall_ns, groups));
    entries.push_back(std::move(entry));
    ++id;
  }
  return {{"version", written_version},    {"pg_config", groups.config}, {"comm_lib_version", ""},
          {"pg_status", groups.status},    {"entries", entries},         {"rank", records.rank},
          {"shardproof", to_json(records)}};
}

std::string flight_dump_file(const RankRecords& records, std::int64_t wall_ns) {
  return to_pickle(to_flight_dump(records, wall_ns), "process_group");
}

std::string flight_dump_name(int rank) {
  return fmt::format("flight_rank_{}", rank);
}

}  // namespace shardproof

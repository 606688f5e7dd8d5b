// dump_report: prepares the records of dumps for hang_analysis, and looks at what has completed.
#include "comm/dump_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "comm/sides.h"

namespace shardproof {

namespace {

using State = OperationRecord::State;
using At = std::pair<std::string, std::uint64_t>;  // numbering and sequence

std::string joined(const std::vector<std::uint64_t>& counts) {
  return fmt::format("{}", fmt::join(counts, " "));
}

std::string total(const std::vector<std::uint64_t>& counts) {
  return std::to_string(std::accumulate(counts.begin(), counts.end(), std::uint64_t{0}));
}

// What all ranks must have in common. Of a message either end says how much.
std::vector<std::pair<std::string, std::string>> contract(const OperationRecord& operation) {
  std::vector<std::pair<std::string, std::string>> fields{
      {"operation", operation.is_message() ? "message" : operation.op},
      {"dtype", operation.dtype},
      {"reduce", operation.reduce},
      {"root", operation.root < 0 ? "" : std::to_string(operation.root)}};
  const bool same = operation.op == "all_reduce" || operation.op == "reduce" ||
                    operation.op == "broadcast" || operation.op == "_broadcast_oop";
  if (same || operation.is_message()) {
    const auto& counts =
        operation.send_counts.empty() ? operation.recv_counts : operation.send_counts;
    fields.emplace_back("count", total(counts));
  } else if (operation.op.find("gather") != std::string::npos && operation.op != "gather") {
    fields.emplace_back("count", joined(operation.recv_counts));
  } else if (operation.op.find("reduce_scatter") != std::string::npos) {
    fields.emplace_back("count", joined(operation.send_counts));
  }
  return fields;
}

class Reporter {
 public:
  explicit Reporter(std::vector<FlightDump> dumps) : dumps_(std::move(dumps)) {}

  DumpReport report() {
    tell_groups_apart();
    collect();
    settle_unclear_ends();
    find_progress();
    find_absent();
    find_mismatches();
    mark_where_ranks_stand();
    for (const FlightDump& dump : dumps_) records_.ranks.push_back(dump.records);
    report_.hang = analyse_hang(records_);
    conclude();
    return std::move(report_);
  }

 private:
  // Two groups of one name (PyTorch makes such) differ in their ranks.
  void tell_groups_apart() {
    std::map<std::string, std::set<std::vector<int>>> kinds;
    for (const FlightDump& dump : dumps_) {
      for (const auto& [name, ranks] : dump.groups) {
        if (!ranks.empty()) kinds[name].insert(ranks);
      }
    }
    for (FlightDump& dump : dumps_) {
      std::map<std::string, std::vector<int>> groups;
      std::map<std::string, std::string> renamed;
      for (auto& [name, ranks] : dump.groups) {
        const bool several = kinds[name].size() > 1 && !ranks.empty();
        const std::string own = several ? fmt::format("{} of {}", name, rank_list(ranks)) : name;
        if (several) renamed[name] = own;
        groups[own] = ranks;
      }
      dump.groups = std::move(groups);
      for (OperationRecord& operation : dump.records.operations) {
        const auto found = renamed.find(operation.group);
        if (found != renamed.end()) operation.group = found->second;
      }
      for (const auto& [name, own] : renamed) {
        auto node = dump.records.issued.extract(name);
        if (node.empty()) continue;
        node.key() = own;
        dump.records.issued.insert(std::move(node));
      }
    }
  }

  void collect() {
    for (FlightDump& dump : dumps_) {
      const int rank = dump.records.rank;
      for (const auto& [name, ranks] : dump.groups) {
        GroupProgress& group = group_of(name);
        if (ranks.empty()) continue;
        group.members = ranks;
        group.members_known = true;
      }
      for (OperationRecord& operation : dump.records.operations) {
        GroupProgress& group = group_of(operation.group);
        const bool known = std::count(group.members.begin(), group.members.end(), rank) > 0;
        if (!group.members_known && !known) group.members.push_back(rank);
        at_[{numbering_of(operation, rank), operation.sequence}][rank] = &operation;
      }
    }
  }

  GroupProgress& group_of(const std::string& name) {
    const auto [found, is_new] = index_.emplace(name, report_.groups.size());
    if (is_new) report_.groups.push_back({name, {}, false, {}, {}});
    return report_.groups[found->second];
  }

  // What has ended somehow has completed where all came to it, and all with the same call.
  void settle_unclear_ends() {
    for (FlightDump& dump : dumps_) {
      for (const std::size_t index : dump.ended_somehow) {
        OperationRecord& operation = dump.records.operations[index];
        const auto& there = at_[{numbering_of(operation, dump.records.rank), operation.sequence}];
        const bool all = there.size() == group_of(operation.group).members.size();
        if (all && difference(there).empty()) operation.state = State::completed;
      }
    }
  }

  void find_progress() {
    for (GroupProgress& group : report_.groups) {
      for (const int member : group.members) {
        group.issued[member] = -1;
        group.completed[member] = -1;
      }
    }
    for (const auto& [at, there] : at_) {
      for (const auto& [rank, operation] : there) {
        if (at.first != operation->group) continue;  // messages and splits are not counted here
        GroupProgress& group = group_of(operation->group);
        const auto number = static_cast<std::int64_t>(operation->sequence);
        group.issued[rank] = std::max(group.issued[rank], number);
        if (operation->state != State::completed) continue;
        group.completed[rank] = std::max(group.completed[rank], number);
      }
    }
  }

  void find_absent() {
    std::set<int> absent;
    for (const GroupProgress& group : report_.groups) {
      absent.insert(group.members.begin(), group.members.end());
    }
    for (const FlightDump& dump : dumps_) absent.erase(dump.records.rank);
    report_.absent.assign(absent.begin(), absent.end());
  }

  static std::string difference(const std::map<int, OperationRecord*>& there) {
    std::map<std::string, std::vector<std::pair<int, std::string>>> values;
    std::vector<std::string> order;
    for (const auto& [rank, operation] : there) {
      for (const auto& [field, value] : contract(*operation)) {
        if (!values.contains(field)) order.push_back(field);
        values[field].emplace_back(rank, value);
      }
    }
    std::string text;
    for (const std::string& field : order) {
      const std::string line = sides(field, values[field]);
      if (line.empty()) continue;
      text += (text.empty() ? "" : ", ") + line;
      if (field == "operation") break;  // the rest differs because of it
    }
    return text;
  }

  void find_mismatches() {
    std::set<std::string> told;
    for (const auto& [at, there] : at_) {
      if (told.contains(at.first)) continue;
      const std::string text = difference(there);
      if (text.empty()) continue;
      told.insert(at.first);
      const OperationRecord& first = *there.begin()->second;
      const std::string what =
          first.is_message() ? name_of(first) : fmt::format("{} #{}", at.first, at.second);
      report_.mismatches.push_back(fmt::format("the ranks disagree on {}: {}", what, text));
    }
  }

  void mark_where_ranks_stand() {
    for (FlightDump& dump : dumps_) {
      std::set<std::string> seen;
      bool stands = false;
      for (OperationRecord& operation : dump.records.operations) {
        operation.waited = false;
        operation.lane = 0;
        if (operation.state == State::completed) continue;
        operation.state = State::started;
        if (!seen.insert(numbering_of(operation, dump.records.rank)).second) continue;
        operation.waited = true;
        operation.waited_for = operation.started_ago;
        stands = true;
      }
      dump.records.lanes.clear();
      if (!stands) dump.records.life = RankLife::ended;
      if (stands) dump.records.life = RankLife::running;
    }
  }

  void conclude() {
    using Finding = DumpReport::Finding;
    const HangKind kind = report_.hang.kind;
    const bool open = kind == HangKind::silent || kind == HangKind::slow_transfer;
    if (!report_.mismatches.empty()) {
      report_.finding = Finding::named;
      report_.summary = report_.mismatches.front();
    } else if (kind != HangKind::none && !open) {
      report_.finding = Finding::named;
      report_.summary = report_.hang.summary;
    } else if (!report_.absent.empty()) {
      report_.finding = Finding::undecided;
      report_.summary =
          fmt::format("undecided: there is no dump of {}{}{}", ranks_text(report_.absent),
                      open ? "; " : "", report_.hang.summary);
    } else if (open) {
      report_.finding = Finding::undecided;
      report_.summary = "undecided: " + report_.hang.summary + "; no rank is missing, all agree";
    } else {
      report_.summary = fmt::format("nothing wrong found in the dumps of {} ranks", dumps_.size());
    }
  }

  std::vector<FlightDump> dumps_;
  FlightRecords records_;
  std::map<At, std::map<int, OperationRecord*>> at_;
  std::map<std::string, std::size_t> index_;
  DumpReport report_;
};

std::string numbers_text(const std::map<int, std::int64_t>& by_rank) {
  std::map<std::int64_t, std::vector<int>> ranks;
  for (const auto& [rank, number] : by_rank) ranks[number].push_back(rank);
  std::vector<std::string> parts;
  for (const auto& [number, of] : ranks) {
    const std::string what = number < 0 ? "none" : fmt::format("#{}", number);
    parts.push_back(fmt::format("{} on {}", what, ranks_text(of)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Json numbers_json(const std::map<int, std::int64_t>& by_rank) {
  Json json = Json::object();
  for (const auto& [rank, number] : by_rank) json[std::to_string(rank)] = number;
  return json;
}

}  // namespace

std::string DumpReport::text() const {
  std::string out = summary + "\n";
  for (const std::string& mismatch : mismatches) {
    if (mismatch != summary) out += mismatch + "\n";
  }
  if (hang.kind != HangKind::none) {
    const std::size_t lines = hang.text.find('\n');
    if (hang.summary != summary) out += hang.summary + "\n";
    for (const WaitsFor& edge : hang.edges) {
      out += fmt::format("  rank {} waits for rank {} in {}\n", edge.from, edge.to, edge.operation);
    }
    if (!hang.cycle.empty()) {
      out += fmt::format("  cycle: {} -> {}\n", fmt::join(hang.cycle, " -> "), hang.cycle.front());
    }
    if (lines != std::string::npos) out += hang.text.substr(lines + 1) + "\n";
  }
  for (const GroupProgress& group : groups) {
    out += fmt::format("group {} ({}{}): last completed {}; last issued {}\n", group.group,
                       ranks_text(group.members), group.members_known ? "" : ", as their dumps say",
                       numbers_text(group.completed), numbers_text(group.issued));
  }
  return out;
}

Json DumpReport::to_json() const {
  constexpr const char* findings[] = {"nothing", "named", "undecided"};
  Json json{{"finding", findings[static_cast<std::size_t>(finding)]},
            {"summary", summary},
            {"mismatches", mismatches},
            {"hang", name(hang.kind)},
            {"operation", hang.operation},
            {"culprits", hang.culprits},
            {"waiting", hang.waiting},
            {"cycle", hang.cycle},
            {"waits", Json::array()},
            {"absent", absent},
            {"groups", Json::array()}};
  for (const WaitsFor& edge : hang.edges) {
    json["waits"].push_back({{"rank", edge.from}, {"for", edge.to}, {"operation", edge.operation}});
  }
  for (const GroupProgress& group : groups) {
    json["groups"].push_back({{"group", group.group},
                              {"members", group.members},
                              {"completed", numbers_json(group.completed)},
                              {"issued", numbers_json(group.issued)}});
  }
  return json;
}

DumpReport report_on(std::vector<FlightDump> dumps) {
  return Reporter(std::move(dumps)).report();
}

}  // namespace shardproof

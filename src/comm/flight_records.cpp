// flight_records: names of operations, and records as JSON.
#include "comm/flight_records.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <utility>

namespace shardproof {

namespace {

using State = OperationRecord::State;

constexpr std::array<std::pair<State, const char*>, 3> states{
    {{State::started, "started"}, {State::completed, "completed"}, {State::failed, "failed"}}};
constexpr std::array<std::pair<RankLife, const char*>, 4> lives{{{RankLife::running, "running"},
                                                                 {RankLife::stopped, "stopped"},
                                                                 {RankLife::ended, "ended"},
                                                                 {RankLife::silent, "silent"}}};

template <typename Word, std::size_t n>
const char* text_of(Word word, const std::array<std::pair<Word, const char*>, n>& words) {
  for (const auto& [each, text] : words) {
    if (each == word) return text;
  }
  return "";
}

template <typename Word, std::size_t n>
Word word_of(const std::string& text, const std::array<std::pair<Word, const char*>, n>& words,
             const std::string& place) {
  for (const auto& [each, known] : words) {
    if (text == known) return each;
  }
  throw Error(ErrorKind::corrupt, place, fmt::format("'{}' is no state that is known", text));
}

double number_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  if (!value.is_number()) {
    throw Error(ErrorKind::corrupt, place, fmt::format("expected a number for '{}'", key));
  }
  return value.get<double>();
}

bool flag_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  if (!value.is_boolean()) {
    throw Error(ErrorKind::corrupt, place, fmt::format("expected true or false for '{}'", key));
  }
  return value.get<bool>();
}

int int_member(const Json& object, const char* key, const std::string& place) {
  return static_cast<int>(integer_member(object, key, place));
}

std::uint64_t count_of(const Json& value, const std::string& place) {
  if (!value.is_number_integer() ||
      (!value.is_number_unsigned() && value.get<std::int64_t>() < 0)) {
    throw Error(ErrorKind::corrupt, place, "expected a count, found " + value.dump());
  }
  return value.get<std::uint64_t>();
}

const Json& list_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  if (!value.is_array()) {
    throw Error(ErrorKind::corrupt, place, fmt::format("expected a list for '{}'", key));
  }
  return value;
}

const Json& object_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  if (!value.is_object()) {
    throw Error(ErrorKind::corrupt, place, fmt::format("expected an object for '{}'", key));
  }
  return value;
}

std::vector<std::uint64_t> counts_member(const Json& object, const char* key,
                                         const std::string& place) {
  std::vector<std::uint64_t> counts;
  for (const Json& value : list_member(object, key, place)) {
    counts.push_back(count_of(value, place));
  }
  return counts;
}

Json place_to_json(const ProgramPlace& at) {
  return {{"step", at.step}, {"phase", at.phase}, {"name", at.name}};
}

ProgramPlace place_from_json(const Json& object, const std::string& place) {
  const Json& at = object_member(object, "at", place);
  return {integer_member(at, "step", place), int_member(at, "phase", place),
          string_member(at, "name", place)};
}

Json operation_to_json(const OperationRecord& operation) {
  return {{"group", operation.group},
          {"members", operation.members},
          {"sequence", operation.sequence},
          {"op", operation.op},
          {"reduce", operation.reduce},
          {"dtype", operation.dtype},
          {"send_counts", operation.send_counts},
          {"recv_counts", operation.recv_counts},
          {"root", operation.root},
          {"peer", operation.peer},
          {"tag", operation.tag},
          {"asynchronous", operation.asynchronous},
          {"state", text_of(operation.state, states)},
          {"waited", operation.waited},
          {"waited_for", operation.waited_for},
          {"lane", operation.lane},
          {"started_ago", operation.started_ago},
          {"ended_ago", operation.ended_ago},
          {"at", place_to_json(operation.at)}};
}

OperationRecord operation_from_json(const Json& json, const std::string& place) {
  OperationRecord operation;
  operation.group = string_member(json, "group", place);
  for (const std::uint64_t rank : counts_member(json, "members", place)) {
    operation.members.push_back(static_cast<int>(rank));
  }
  operation.sequence = count_of(member(json, "sequence", place), place);
  operation.op = string_member(json, "op", place);
  operation.reduce = string_member(json, "reduce", place);
  operation.dtype = string_member(json, "dtype", place);
  operation.send_counts = counts_member(json, "send_counts", place);
  operation.recv_counts = counts_member(json, "recv_counts", place);
  operation.root = int_member(json, "root", place);
  operation.peer = int_member(json, "peer", place);
  operation.tag = int_member(json, "tag", place);
  operation.asynchronous = flag_member(json, "asynchronous", place);
  operation.state = word_of(string_member(json, "state", place), states, place);
  operation.waited = flag_member(json, "waited", place);
  operation.waited_for = number_member(json, "waited_for", place);
  operation.lane = int_member(json, "lane", place);
  operation.started_ago = number_member(json, "started_ago", place);
  operation.ended_ago = number_member(json, "ended_ago", place);
  operation.at = place_from_json(json, place);
  return operation;
}

std::string elements(const OperationRecord& operation) {
  const auto& counts =
      operation.send_counts.empty() ? operation.recv_counts : operation.send_counts;
  if (counts.empty()) return "";
  if (counts.size() == 1) return fmt::format("{}", counts.front());
  return fmt::format("[{}]", fmt::join(counts, " "));
}

}  // namespace

bool ProgramPlace::is_after(const ProgramPlace& other) const {
  if (!known() || !other.known()) return false;
  return step != other.step ? step > other.step : phase > other.phase;
}

std::string ProgramPlace::text() const {
  if (!known()) return "";
  return name.empty() ? fmt::format("step {}", step) : fmt::format("step {}, {}", step, name);
}

std::string numbering_of(const OperationRecord& operation, int rank) {
  if (operation.op == "split") return operation.group + " split";
  if (!operation.is_message()) return operation.group;
  const bool sends = operation.op == "send";
  return fmt::format("{} send {}>{} #{}", operation.group, sends ? rank : operation.peer,
                     sends ? operation.peer : rank, operation.tag);
}

std::string name_of(const OperationRecord& operation) {
  if (!operation.is_message()) {
    return fmt::format("{} {} #{}", operation.group, operation.op, operation.sequence);
  }
  return fmt::format("{} {} {} rank {} tag {} #{}", operation.group, operation.op,
                     operation.op == "send" ? "to" : "from", operation.peer, operation.tag,
                     operation.sequence);
}

std::string describe(const OperationRecord& operation) {
  std::string what = elements(operation);
  if (!what.empty() && !operation.dtype.empty()) what += " " + operation.dtype;
  if (!what.empty() && !operation.reduce.empty()) what = operation.reduce + " of " + what;
  if (operation.root >= 0) what += fmt::format(", root rank {}", operation.root);
  return what.empty() ? name_of(operation) : fmt::format("{} ({})", name_of(operation), what);
}

Json to_json(const RankRecords& records) {
  Json json{{"rank", records.rank},
            {"life", text_of(records.life, lives)},
            {"pulses", records.pulses},
            {"pulse_ago", records.pulse_ago},
            {"at", place_to_json(records.at)},
            {"issued", Json::object()},
            {"lanes", Json::object()},
            {"operations", Json::array()}};
  for (const auto& [numbering, count] : records.issued) json["issued"][numbering] = count;
  for (const auto& [group, lane] : records.lanes) json["lanes"][group] = lane;
  for (const OperationRecord& operation : records.operations) {
    json["operations"].push_back(operation_to_json(operation));
  }
  return json;
}

RankRecords rank_records_from_json(const Json& json, const std::string& place) {
  RankRecords records;
  records.rank = int_member(json, "rank", place);
  records.life = word_of(string_member(json, "life", place), lives, place);
  records.pulses = count_of(member(json, "pulses", place), place);
  records.pulse_ago = number_member(json, "pulse_ago", place);
  records.at = place_from_json(json, place);
  for (const auto& [numbering, count] : object_member(json, "issued", place).items()) {
    records.issued[numbering] = count_of(count, place);
  }
  for (const auto& [group, lane] : object_member(json, "lanes", place).items()) {
    records.lanes[group] = static_cast<int>(count_of(lane, place));
  }
  for (const Json& operation : list_member(json, "operations", place)) {
    records.operations.push_back(operation_from_json(operation, place));
  }
  return records;
}

}  // namespace shardproof

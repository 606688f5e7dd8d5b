// flight_dump_reader: dumps of ours and of PyTorch, entry by entry, strictly.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

#include "base/pickle.h"
#include "comm/flight_dump.h"

namespace shardproof {

namespace {

using State = OperationRecord::State;

constexpr std::uintmax_t max_file = std::uintmax_t{1} << 28;

[[noreturn]] void refuse(const std::string& place, const std::string& what) {
  throw Error(ErrorKind::bad_input, place, what);
}

// The number at the end of a file's name, before .json or .pickle.
std::optional<int> rank_in_name(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const char* ending : {".json", ".pickle", ".pkl"}) {
    if (name.ends_with(ending)) name.resize(name.size() - std::string_view(ending).size());
  }
  const std::size_t end = name.find_last_not_of("0123456789");
  const std::string digits = end == std::string::npos ? name : name.substr(end + 1);
  if (digits.empty() || digits.size() > 9) return std::nullopt;
  return std::stoi(digits);
}

const Json& item(const Json& object, const char* key, const std::string& place) {
  if (!object.is_object()) refuse(place, "expected a dictionary, found " + object.dump());
  const auto found = object.find(key);
  if (found == object.end()) refuse(place, fmt::format("'{}' is missing", key));
  return *found;
}

std::string text_item(const Json& object, const char* key, const std::string& place) {
  const Json& value = item(object, key, place);
  if (!value.is_string()) refuse(place, fmt::format("expected text for '{}'", key));
  return value.get<std::string>();
}

std::int64_t integer_item(const Json& object, const char* key, const std::string& place) {
  const Json& value = item(object, key, place);
  if (!value.is_number_integer()) refuse(place, fmt::format("expected an integer for '{}'", key));
  return value.get<std::int64_t>();
}

bool flag_item(const Json& object, const char* key, const std::string& place) {
  const Json& value = item(object, key, place);
  if (!value.is_boolean()) refuse(place, fmt::format("expected true or false for '{}'", key));
  return value.get<bool>();
}

const Json& list_item(const Json& object, const char* key, const std::string& place) {
  const Json& value = item(object, key, place);
  if (!value.is_array()) refuse(place, fmt::format("expected a list for '{}'", key));
  return value;
}

std::vector<std::uint64_t> element_counts(const Json& entry, const char* key,
                                          const std::string& place) {
  std::vector<std::uint64_t> counts;
  for (const Json& shape : list_item(entry, key, place)) {
    if (!shape.is_array()) refuse(place, fmt::format("expected lists of sizes in '{}'", key));
    std::uint64_t count = 1;
    for (const Json& size : shape) {
      if (!size.is_number_integer() || size.get<std::int64_t>() < 0) {
        refuse(place, fmt::format("expected sizes in '{}', found {}", key, size.dump()));
      }
      count *= size.get<std::uint64_t>();
    }
    counts.push_back(count);
  }
  return counts;
}

std::string dtype_of(const Json& entry, const std::string& place) {
  for (const char* key : {"input_dtypes", "output_dtypes"}) {
    if (!entry.contains(key)) continue;  // before 2.3
    const Json& dtypes = list_item(entry, key, place);
    if (dtypes.empty()) continue;
    if (!dtypes.front().is_string()) refuse(place, fmt::format("expected texts in '{}'", key));
    return dtypes.front().get<std::string>();
  }
  return "";
}

// "[0, 1, 2]", as PyTorch writes it, or a list.
std::vector<int> ranks_of(const Json& config, const std::string& place) {
  const Json& written = item(config, "ranks", place);
  const Json list = written.is_string() ? parse_json(written.get<std::string>(), place) : written;
  if (!list.is_array()) refuse(place, "expected a list of ranks");
  std::vector<int> ranks;
  for (const Json& rank : list) {
    if (!rank.is_number_integer()) refuse(place, "expected ranks, found " + rank.dump());
    ranks.push_back(rank.get<int>());
  }
  return ranks;
}

class TorchReader {
 public:
  TorchReader(const Json& json, const std::string& file, int rank)
      : json_(json), file_(file), rank_(rank) {}

  void read(FlightDump& dump) {
    const Json& config = item(json_, "pg_config", file_);
    if (!config.is_object()) refuse(file_ + ", pg_config", "expected a dictionary");
    for (const auto& [name, group] : config.items()) {
      const std::string place = fmt::format("{}, pg_config '{}'", file_, name);
      const std::vector<int> ranks = ranks_of(group, place);
      if (!ranks.empty()) dump.groups[shown(name, text_item(group, "desc", place))] = ranks;
    }
    const auto entries = json_.find("entries");
    if (entries == json_.end()) return;  // PyTorch's JSON leaves out a list without entries
    if (!entries->is_array()) refuse(file_ + ", entries", "expected a list");
    for (std::size_t i = 0; i < entries->size(); ++i) read_entry((*entries)[i], i, dump);
    for (const auto& [numbering, from] : whole_) dump.records.issued[numbering] = from;
  }

 private:
  static std::string shown(const std::string& name, const std::string& description) {
    if (description.empty() || description == "undefined") return name;
    return name + ":" + description;
  }

  void read_entry(const Json& entry, std::size_t index, FlightDump& dump) {
    const std::string place = fmt::format("{}, entry {}", file_, index);
    const Json& group = list_item(entry, "process_group", place);
    if (group.size() != 2 || !group[0].is_string() || !group[1].is_string()) {
      refuse(place, "expected a name and a description for 'process_group'");
    }
    OperationRecord operation;
    operation.group = shown(group[0].get<std::string>(), group[1].get<std::string>());
    if (const auto known = dump.groups.find(operation.group); known != dump.groups.end()) {
      operation.members = known->second;
    }
    const std::string name = text_item(entry, "profiling_name", place);
    const std::size_t colon = name.find(':');
    if (colon == std::string::npos) {
      refuse(place, "expected a name such as nccl:all_reduce, found '" + name + "'");
    }
    const bool message = entry.contains("is_p2p") && flag_item(entry, "is_p2p", place);
    operation.op = name.substr(colon + 1);
    if (operation.op == "all_reduce_barrier") operation.op = "barrier";
    operation.send_counts = element_counts(entry, "input_sizes", place);
    operation.recv_counts = element_counts(entry, "output_sizes", place);
    operation.dtype = dtype_of(entry, place);
    const std::int64_t number = integer_item(entry, "collective_seq_id", place);
    if (number < 0) refuse(place, "a negative collective_seq_id");
    operation.sequence = static_cast<std::uint64_t>(number);
    const bool whole = first_id(entry, place) == 0;
    if (message && !as_message(operation, place, whole)) return;
    const bool ended = set_state(operation, entry, place);
    keep(dump, std::move(operation), ended && name.starts_with("gloo:"));
  }

  std::int64_t first_id(const Json& entry, const std::string& place) {
    const std::int64_t id = integer_item(entry, "record_id", place);
    if (!first_id_) first_id_ = id;
    return *first_id_;
  }

  // "send 0->1", "recv 1<-0" in ranks of the group. False for the end of a coalesced group, and
  // where the begin of the numbering is lost.
  bool as_message(OperationRecord& operation, const std::string& place, bool whole) {
    const std::string text = operation.op;
    const bool sends = text.starts_with("send ");
    if (!sends && !text.starts_with("recv ")) return false;
    const std::size_t arrow = text.find(sends ? "->" : "<-");
    int mine = -1, other = -1;
    try {
      if (arrow == std::string::npos) throw std::invalid_argument(text);
      mine = std::stoi(text.substr(5, arrow - 5));
      other = std::stoi(text.substr(arrow + 2));
    } catch (const std::exception&) {
      refuse(place, "expected 'send 0->1' or 'recv 1<-0', found '" + text + "'");
    }
    const auto size = static_cast<int>(operation.members.size());
    if (!whole || mine < 0 || other < 0 || mine >= size || other >= size) return false;
    operation.op = sends ? "send" : "recv";
    operation.peer = operation.members[static_cast<std::size_t>(other)];
    std::vector<std::uint64_t>& none = sends ? operation.recv_counts : operation.send_counts;
    none.clear();
    operation.sequence = messages_[numbering_of(operation, rank_)]++;
    return true;
  }

  // True when it has ended without saying how.
  bool set_state(OperationRecord& operation, const Json& entry, const std::string& place) {
    const std::string state = text_item(entry, "state", place);
    const bool retired = entry.contains("retired") && flag_item(entry, "retired", place);
    if (state == "completed") {
      operation.state = State::completed;
    } else if (state == "started" || state == "scheduled") {
      operation.state = retired ? State::failed : State::started;
    } else {
      refuse(place, "expected the state scheduled, started or completed, found '" + state + "'");
    }
    return retired && state == "scheduled";
  }

  // Of the entries of a coalesced group, which share a number, the last is the group.
  void keep(FlightDump& dump, OperationRecord operation, bool ended_somehow) {
    auto& operations = dump.records.operations;
    const std::string numbering = numbering_of(operation, rank_);
    whole_[numbering] = std::max(whole_[numbering], operation.sequence + 1);
    const auto last = last_.find(numbering);
    if (last != last_.end() && operations[last->second].sequence == operation.sequence) {
      operations[last->second] = std::move(operation);
      return;
    }
    last_[numbering] = operations.size();
    if (ended_somehow) dump.ended_somehow.push_back(operations.size());
    operations.push_back(std::move(operation));
  }

  const Json& json_;
  const std::string& file_;
  const int rank_;
  std::optional<std::int64_t> first_id_;
  std::map<std::string, std::uint64_t> messages_;  // how many, by numbering
  std::map<std::string, std::uint64_t> whole_;
  std::map<std::string, std::size_t> last_;
};

bool is_candidate(const std::filesystem::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const bool other = name.ends_with(".safetensors") || name.ends_with(".jsonl");
  return entry.is_regular_file() && !other && rank_in_name(name).has_value();
}

std::string read_file(const std::string& path) {
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(path, code);
  if (code) refuse(path, code.message() + "; expected a dump or a folder of dumps");
  if (size > max_file) refuse(path, "larger than 256 MiB; expected a dump");
  std::ifstream in(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(in), {}};
  if (!in) refuse(path, "cannot be read");
  return bytes;
}

}  // namespace

FlightDump read_flight_dump(std::string_view bytes, const std::string& file) {
  const std::size_t first = bytes.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string_view::npos && bytes[first] == '{';
  const Json json = is_json ? parse_json(bytes, file) : parse_pickle(bytes, file);
  FlightDump dump;
  dump.file = file;
  dump.version = text_item(json, "version", file);
  if (!dump.version.starts_with("2.")) {
    refuse(file, "version " + dump.version + "; expected 2.x of PyTorch's flight recorder");
  }
  if (json.contains("shardproof")) {
    try {
      dump.records = rank_records_from_json(json["shardproof"], file + ", shardproof");
    } catch (const Error& error) {
      refuse(error.place(), error.detail());
    }
    for (const OperationRecord& operation : dump.records.operations) {
      dump.groups[operation.group] = operation.members;
    }
    return dump;
  }
  const std::optional<int> rank = rank_in_name(file);
  if (!rank) refuse(file, "expected a name that ends in the rank, such as trace_3");
  dump.records.rank = *rank;
  TorchReader(json, file, *rank).read(dump);
  return dump;
}

std::vector<FlightDump> read_flight_dumps(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    if (!std::filesystem::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    const std::size_t before = files.size();
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      if (is_candidate(entry)) files.push_back(entry.path().string());
    }
    if (files.size() == before) {
      refuse(path, "no dumps in this folder; expected files whose names end in a rank");
    }
    std::sort(files.begin() + static_cast<std::ptrdiff_t>(before), files.end());
  }
  std::vector<FlightDump> dumps;
  std::map<int, std::string> seen;
  for (const std::string& file : files) {
    dumps.push_back(read_flight_dump(read_file(file), file));
    const auto [first, is_new] = seen.emplace(dumps.back().records.rank, file);
    if (!is_new) {
      refuse(file,
             fmt::format("a second dump of rank {}; the first is {}", first->first, first->second));
    }
  }
  std::sort(dumps.begin(), dumps.end(),
            [](const auto& a, const auto& b) { return a.records.rank < b.records.rank; });
  return dumps;
}

}  // namespace shardproof

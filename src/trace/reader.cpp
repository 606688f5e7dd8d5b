// reader: lines to records, kind by kind; what a line lacks is named with its file and line.
#include "trace/reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "trace/mapped_file.h"
#include "trace/tensor_file.h"

namespace shardproof {
namespace {

constexpr std::int64_t schema = 1;

constexpr std::size_t read_window = std::size_t{1} << 20;  // bytes of a file kept in memory

// Calls `use(event, place)` for every line that is whole. True when the last line is torn.
bool for_each_line(const std::string& path,
                   const std::function<void(const Json& line, const std::string& place)>& use) {
  const MappedFile file(path);
  std::string_view rest = file.text();
  std::size_t released = 0;
  for (int number = 1; !rest.empty(); ++number) {
    const std::size_t passed = file.bytes().size() - rest.size();
    if (passed - released >= read_window) {
      release_pages(file.bytes().subspan(released, passed - released));
      released = passed;
    }
    const std::size_t end = rest.find('\n');
    const bool last = end == rest.npos;
    Json line;
    try {
      line = parse_json(rest.substr(0, end), path, ErrorKind::corrupt, number);
    } catch (const Error&) {
      if (last) return true;
      throw;
    }
    use(line, fmt::format("{}:{}", path, number));
    rest = last ? std::string_view() : rest.substr(end + 1);
  }
  return false;
}

int int_member(const Json& line, const char* key, int lowest, const std::string& place) {
  const std::int64_t value = integer_member(line, key, place);
  if (value < lowest || value > std::numeric_limits<int>::max()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"{}\": expected an int >= {}, found {}", key, lowest, value));
  }
  return static_cast<int>(value);
}

void take_run(RankTrace& trace, const Json& line, const std::string& place) {
  if (const std::int64_t found = integer_member(line, "schema", place); found != schema) {
    throw Error(ErrorKind::corrupt, place, fmt::format("schema {}, expected {}", found, schema));
  }
  if (const int rank = int_member(line, "rank", 0, place); rank != trace.rank) {
    throw Error(
        ErrorKind::corrupt, place,
        fmt::format("\"rank\": found {}, expected {} as in the file's name", rank, trace.rank));
  }
  const int world = int_member(line, "world", 1, place);
  trace.ended.reset();
  if (++trace.runs > 1) return;
  trace.world = world;
  trace.run = line;
}

void take_checkpoint(RankTrace& trace, const Json& line, const std::string& place) {
  const std::string state = string_member(line, "state", place);
  if (state != "begun" && state != "done") {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"state\": expected begun or done, found \"{}\"", state));
  }
  trace.checkpoints.push_back(
      {integer_member(line, "step", place), string_member(line, "path", place), state == "done"});
}

void take(RankTrace& trace, const Json& line, const std::string& place) {
  const std::string kind = string_member(line, "kind", place);
  if (kind == "at") {
    trace.last_at =
        AtRecord{integer_member(line, "step", place), string_member(line, "phase", place)};
  } else if (kind == "step") {
    trace.steps.push_back(step_from_json(line, place));
  } else if (kind == "tensor") {
    trace.tensors.push_back(tensor_from_json(line, place));
  } else if (kind == "run") {
    take_run(trace, line, place);
  } else if (kind == "checkpoint") {
    take_checkpoint(trace, line, place);
  } else if (kind == "end") {
    trace.ended = integer_member(line, "step", place);
  } else {
    trace.others.push_back(line);
  }
}

// The rank of "rank_00003.jsonl".
std::optional<int> rank_of_file(std::string_view file) {
  constexpr std::string_view prefix = "rank_";
  constexpr std::string_view suffix = ".jsonl";
  if (!file.starts_with(prefix) || !file.ends_with(suffix)) return std::nullopt;
  file = file.substr(prefix.size(), file.size() - prefix.size() - suffix.size());
  int rank = 0;
  const auto result = std::from_chars(file.data(), file.data() + file.size(), rank);
  if (result.ec != std::errc() || result.ptr != file.data() + file.size() || rank < 0) {
    return std::nullopt;
  }
  return rank;
}

// Which steps of a run were done, by lines of one file.
class StepsDone {
 public:
  void clear() { lines_.clear(); }
  // The line of the record that the step has already; 0 when it is new.
  int add(std::int64_t step, int line) {
    const auto at = std::lower_bound(lines_.begin(), lines_.end(), std::pair(step, 0));
    if (at != lines_.end() && at->first == step) return at->second;
    lines_.emplace(at, step, line);  // at the end, as runs write them
    return 0;
  }

 private:
  std::vector<std::pair<std::int64_t, int>> lines_;  // ascending
};

RankTrace read_rank(const std::string& path, int rank) {
  RankTrace trace;
  trace.rank = rank;
  StepsDone done;  // of the current run
  int number = 0;
  trace.torn = for_each_line(path, [&](const Json& line, const std::string& place) {
    ++number;
    const int runs = trace.runs;
    const std::size_t steps = trace.steps.size();
    take(trace, line, place);
    if (trace.runs != runs) done.clear();
    if (trace.steps.size() == steps) return;
    const int first = done.add(trace.steps.back().step, number);
    if (first == 0) return;
    throw Error(ErrorKind::corrupt, place,
                fmt::format("step {} has a record already, at {}:{}", trace.steps.back().step, path,
                            first));
  });
  trace.ascending = steps_ascend(trace);
  return trace;
}

std::vector<std::string> file_names(const std::string& directory) {
  std::error_code code;
  std::filesystem::directory_iterator entries(directory, code);
  std::vector<std::string> names;
  for (; !code && entries != std::filesystem::directory_iterator(); entries.increment(code)) {
    names.push_back(entries->path().filename().string());
  }
  if (code) {
    throw Error(ErrorKind::bad_input, directory, "not a readable trace folder: " + code.message());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool steps_ascend(const RankTrace& trace) {
  return std::adjacent_find(trace.steps.begin(), trace.steps.end(),
                            [](const StepRecord& a, const StepRecord& b) {
                              return a.step >= b.step;
                            }) == trace.steps.end();
}

const StepRecord* RankTrace::find_step(std::int64_t step) const {
  if (ascending) {
    const auto found = std::lower_bound(
        steps.begin(), steps.end(), step,
        [](const StepRecord& record, std::int64_t wanted) { return record.step < wanted; });
    return found == steps.end() || found->step != step ? nullptr : &*found;
  }
  const auto found = std::find_if(steps.rbegin(), steps.rend(),
                                  [&](const StepRecord& record) { return record.step == step; });
  return found == steps.rend() ? nullptr : &*found;
}

int Trace::world() const {
  for (const RankTrace& rank : ranks) {
    if (rank.world > 0) return rank.world;
  }
  return 0;
}

std::vector<std::int64_t> Trace::step_numbers() const {
  std::set<std::int64_t> numbers;
  for (const RankTrace& rank : ranks) {
    for (const StepRecord& record : rank.steps) numbers.insert(record.step);
  }
  return {numbers.begin(), numbers.end()};
}

Trace read_trace(const std::string& directory) {
  Trace trace;
  trace.directory = directory;
  for (const std::string& file : file_names(directory)) {
    const std::string path = directory + "/" + file;
    if (const auto rank = rank_of_file(file)) {
      trace.ranks.push_back(read_rank(path, *rank));
    } else if (const auto tensor = parse_tensor_file_name(file)) {
      trace.files.push_back({tensor->step, tensor->what, tensor->rank, path});
    } else if (file == "harness.jsonl") {
      for_each_line(path,
                    [&](const Json& line, const std::string&) { trace.harness.push_back(line); });
    }
  }
  if (trace.ranks.empty()) {
    throw Error(ErrorKind::bad_input, directory,
                "no trace: expected files such as rank_00000.jsonl");
  }
  std::sort(trace.ranks.begin(), trace.ranks.end(),
            [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  const auto twice =
      std::adjacent_find(trace.ranks.begin(), trace.ranks.end(),
                         [](const RankTrace& a, const RankTrace& b) { return a.rank == b.rank; });
  if (twice != trace.ranks.end()) {
    throw Error(ErrorKind::corrupt, directory, fmt::format("two files of rank {}", twice->rank));
  }
  std::sort(trace.files.begin(), trace.files.end(), [](const auto& a, const auto& b) {
    return std::tie(a.step, a.what, a.rank) < std::tie(b.step, b.what, b.rank);
  });
  return trace;
}

}  // namespace shardproof

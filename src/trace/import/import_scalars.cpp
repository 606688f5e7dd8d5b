// import_scalars: see import_scalars.h.
#include "trace/import/import_scalars.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "trace/append_file.h"
#include "trace/event.h"
#include "trace/file_error.h"
#include "trace/import/event_file.h"
#include "trace/import/megatron_golden.h"
#include "trace/import/torchtitan_log.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 3> format_names = {"torchtitan", "megatron", "tensorboard"};

constexpr std::int64_t last_step = std::int64_t{1} << 60;

struct Source {
  ScalarLog log;
  std::int64_t first_step = 0;
};

Source read_source(ScalarFormat format, const std::string& input, const ScalarOptions& options) {
  Source source;
  switch (format) {
    case ScalarFormat::torchtitan:
      source.log = read_torchtitan_log(input, options);
      source.first_step = 1;
      break;
    case ScalarFormat::megatron:
      source.log = read_megatron_golden(input, options, source.first_step);
      break;
    case ScalarFormat::tensorboard:
      source.log = read_event_files(input, options);
      break;
  }
  source.first_step = options.first_step.value_or(source.first_step);
  const std::int64_t lowest = source.log.steps.front().step;
  if (const std::int64_t highest = source.log.steps.back().step; highest > last_step) {
    throw Error(ErrorKind::corrupt, input, fmt::format("step {}: no program gets there", highest));
  }
  if (source.first_step < 0 || lowest < source.first_step) {
    throw Error(ErrorKind::bad_input, input,
                fmt::format("step {} comes before the first step, {} (--first-step)", lowest,
                            source.first_step));
  }
  return source;
}

Json run_event(ScalarFormat format, const std::string& input, const Source& source) {
  Json run{{"kind", "run"},
           {"schema", 1},
           {"rank", 0},
           {"world", 1},
           {"imported", name(format)},
           {"source", fs::path(input).filename().string()},
           {"tensors", "not verified"}};
  for (std::size_t key = 0; key < scalar_keys.size(); ++key) {
    if (source.log.tags[key].empty()) continue;
    run["scalars"][scalar_keys[key]] =
        Json{{"tag", source.log.tags[key]}, {"digits", source.log.digits[key]}};
  }
  run["first_step"] = source.first_step;
  if (!source.log.ended) run["end"] = "not known";
  if (source.log.torn) run["torn"] = true;
  return run;
}

StepRecord step_record(const ScalarLog::Step& step, std::int64_t first_step) {
  StepRecord record;
  record.step = step.step - first_step;
  const std::array<double*, scalar_keys.size()> members = {&record.loss, &record.grad_norm,
                                                           &record.lr};
  Json missing = Json::array();
  for (std::size_t key = 0; key < members.size(); ++key) {
    if (step.values[key]) {
      *members[key] = *step.values[key];
    } else {
      missing.push_back(scalar_keys[key]);
    }
  }
  for (const char* key : {"tokens", "samples", "skipped"}) missing.push_back(key);
  record.extra["missing"] = missing;
  return record;
}

void write_trace(const std::string& directory, const Json& run, const Source& source) {
  const std::string path = directory + "/rank_00000.jsonl", part = path + ".part";
  std::error_code code;
  fs::remove(part, code);  // of an import that was killed
  {
    AppendFile file(part);
    file.append(run.dump());
    for (const ScalarLog::Step& step : source.log.steps) {
      file.append(to_json(step_record(step, source.first_step)).dump());
    }
    if (source.log.ended.value_or(false)) {
      const std::int64_t next = source.log.steps.back().step - source.first_step + 1;
      file.append(Json{{"kind", "end"}, {"step", next}}.dump());
    }
  }
  fs::rename(part, path, code);
  if (code) throw file_error(path, "rename", code.value());
}

void refuse_second_trace(const std::string& directory) {
  std::error_code code;
  fs::directory_iterator entries(directory, code);
  for (; !code && entries != fs::directory_iterator(); entries.increment(code)) {
    const std::string file = entries->path().filename().string();
    if (!file.starts_with("rank_") || !file.ends_with(".jsonl")) continue;
    throw Error(ErrorKind::conflict, entries->path().string(),
                "the folder holds a trace already; expected one without");
  }
}

std::vector<std::string> said_of(ScalarFormat format, const Source& source) {
  const ScalarLog& log = source.log;
  std::vector<std::string> has, lacks;
  for (std::size_t key = 0; key < scalar_keys.size(); ++key) {
    if (log.tags[key].empty()) {
      lacks.push_back(scalar_keys[key]);
    } else {
      has.push_back(
          fmt::format("{} (\"{}\", {})", scalar_keys[key], log.tags[key], log.digits[key]));
    }
  }
  std::vector<std::string> said = {
      fmt::format("{} steps of {}: {}", log.steps.size(), name(format), fmt::join(has, ", "))};
  if (!lacks.empty()) said.push_back(fmt::format("not there: {}", fmt::join(lacks, ", ")));
  said.insert(said.end(), log.notes.begin(), log.notes.end());
  if (log.torn) said.push_back("the last record is torn, as of a writer that runs or was killed");
  if (!log.ended) said.push_back("whether the run ended is not known");
  if (log.ended == false) said.push_back("the run did not end");
  said.push_back("tensors: not verified");
  return said;
}

}  // namespace

std::string_view name(ScalarFormat format) {
  return format_names[static_cast<std::size_t>(format)];
}

ScalarFormat scalar_format_from_name(std::string_view name) {
  for (std::size_t i = 0; i < format_names.size(); ++i) {
    if (format_names[i] == name) return static_cast<ScalarFormat>(i);
  }
  throw Error(ErrorKind::bad_input, fmt::format("format \"{}\"", name.substr(0, 40)),
              fmt::format("expected one of {}", fmt::join(format_names, ", ")));
}

ImportedScalars import_scalars(ScalarFormat format, const std::string& input,
                               const std::string& directory, const ScalarOptions& options) {
  refuse_second_trace(directory);
  const Source source = read_source(format, input, options);
  write_trace(directory, run_event(format, input, source), source);
  return {static_cast<std::int64_t>(source.log.steps.size()), said_of(format, source)};
}

}  // namespace shardproof

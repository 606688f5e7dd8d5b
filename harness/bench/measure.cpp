// measure: metrics files of all ranks, read back.
#include "harness/bench/measure.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"

namespace shardproof::bench {
namespace {

std::vector<Json> timed_steps(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::vector<Json> steps;
  for (std::string line; std::getline(file, line);) steps.push_back(parse_json(line, "metrics"));
  if (steps.size() <= warm_up_steps) {
    throw Error(ErrorKind::corrupt, path.string(), "fewer steps than were asked for");
  }
  steps.erase(steps.begin(), steps.begin() + warm_up_steps);
  return steps;
}

double median_of(const std::vector<Json>& steps, const Json::json_pointer& value) {
  std::vector<double> all;
  for (const Json& step : steps) all.push_back(step.at(value).get<double>());
  return median(std::move(all));
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

StepTimes measure(RunRequest request) {
  const TempFolder folder;
  request.metrics_directory = folder.path();
  run(request);
  StepTimes times;
  bool any = false;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().extension() != ".jsonl") continue;
    const auto steps = timed_steps(entry.path());
    any = true;
    times.seconds = std::max(times.seconds, median_of(steps, Json::json_pointer("/seconds")));
    if (!times.parts.is_null() || !steps.front().contains("parts")) continue;
    for (const auto& [part, value] : steps.front().at("parts").items()) {
      times.parts[part] = median_of(steps, Json::json_pointer("/parts/" + part));
    }
  }
  if (!any) throw Error(ErrorKind::corrupt, "metrics", "no rank wrote any");
  return times;
}

Config plain_config(const std::string& layout, int ranks, int steps) {
  constexpr int rows = 4;
  Config config;
  config.training.micro_batch = rows;
  config.training.global_batch = rows * ranks;
  config.training.steps = warm_up_steps + steps;
  config.data.ignored = 0;
  config.numerics.tensor_pieces = 1;
  config.numerics.sequence_pieces = 1;
  config.run.backend = "mpi";
  config.run.layout = layout;
  config.run.deadline = 300;
  return config;
}

void make_large(Config& config) {
  config.model.layers = 6;
  config.model.width = 384;
  config.model.heads = 6;
  config.model.vocabulary = 256;
  config.model.sequence = 128;
}

}  // namespace shardproof::bench

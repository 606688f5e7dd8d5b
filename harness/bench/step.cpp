// step: runs ours and the peer in turns and compares medians.
#include "harness/bench/step.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "base/error.h"
#include "base/temp_folder.h"
#include "harness/child.h"
#include "harness/world.h"
#include "train/metrics.h"

namespace shardproof::bench {
namespace {

constexpr int warm_up = 3;
constexpr int rows_per_rank = 4;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Config base_config(int ranks, int steps) {
  Config config;
  config.training.micro_batch = rows_per_rank;
  config.training.global_batch = rows_per_rank * ranks;
  config.training.steps = warm_up + steps;
  config.data.ignored = 0;
  config.numerics.tensor_pieces = 1;
  config.numerics.sequence_pieces = 1;
  config.run.backend = "mpi";
  config.run.layout = fmt::format("dp{}.zero1", ranks);
  config.run.deadline = 300;
  return config;
}

// Median seconds of a step on the slowest rank, and of each part of rank 0's step.
Json measure_ours(const Config& config) {
  const TempFolder scratch;
  RunRequest request;
  request.config = config;
  request.metrics_directory = scratch.path();
  run(request);
  std::vector<double> medians;
  Json parts;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path())) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream file(entry.path());
    std::vector<Json> steps;
    for (std::string line; std::getline(file, line);) steps.push_back(parse_json(line, "metrics"));
    if (steps.size() <= warm_up)
      throw Error(ErrorKind::corrupt, entry.path().string(), "fewer steps than were asked for");
    steps.erase(steps.begin(), steps.begin() + warm_up);
    std::vector<double> seconds;
    for (const auto& step : steps) seconds.push_back(step.at("seconds").get<double>());
    medians.push_back(median(seconds));
    if (!parts.is_null() || !steps.front().contains("parts")) continue;
    for (const auto& [key, value] : steps.front().at("parts").items()) {
      std::vector<double> all;
      for (const auto& step : steps) all.push_back(step.at("parts").at(key).get<double>());
      parts[key] = median(all);
    }
  }
  if (medians.empty()) throw Error(ErrorKind::corrupt, "metrics", "no rank wrote any");
  return {{"seconds", *std::max_element(medians.begin(), medians.end())}, {"parts", parts}};
}

bool has_torch(const std::string& python) {
  try {
    const auto probe =
        run_child({python, "-c", "import torch, torch.distributed"}, std::chrono::seconds(60));
    return probe.exit_code == 0;
  } catch (const Error&) {
    return false;
  }
}

std::string find_python(const std::string& asked) {
  std::vector<std::string> candidates{asked};
  if (asked.empty()) candidates = {SHARDPROOF_PEERS_PYTHON, "python3"};
  for (const auto& python : candidates)
    if (has_torch(python)) return python;
  throw Error(ErrorKind::environment, "bench step",
              "no Python with torch was found (tried " + candidates.front() +
                  "): run ci/install --peers, or name one with --python");
}

Json measure_peer(const std::string& python, const StepBench& bench, int ranks) {
  const auto& model = bench.config.model;
  const std::string script = SHARDPROOF_SOURCE_DIR "/harness/bench/peer_ddp.py";
  const auto result =
      run_child({python, script, "--ranks", std::to_string(ranks), "--layers",
                 std::to_string(model.layers), "--width", std::to_string(model.width), "--heads",
                 std::to_string(model.heads), "--vocabulary", std::to_string(model.vocabulary),
                 "--sequence", std::to_string(model.sequence), "--batch",
                 std::to_string(rows_per_rank), "--steps", std::to_string(bench.steps)},
                std::chrono::seconds(600));
  const auto line = result.output.rfind("{\"parameters\"");
  if (result.exit_code != 0 || line == std::string::npos)
    throw Error(ErrorKind::environment, script,
                fmt::format("exit {}: {}", result.exit_code, result.output));
  return parse_json(result.output.substr(line), script);
}

double tokens_per_step(const Config& config) {
  return static_cast<double>(config.training.global_batch) * config.model.sequence;
}

Json run_one(const StepBench& bench, const std::string& python, int ranks, int rounds) {
  std::vector<double> ours, peer, ratios;
  Json parts, parameters;
  for (int round = 0; round < rounds; ++round) {
    const Json mine = measure_ours(bench.config);
    const Json theirs = measure_peer(python, bench, ranks);
    ours.push_back(mine.at("seconds").get<double>());
    peer.push_back(theirs.at("seconds").get<double>());
    ratios.push_back(peer.back() / ours.back());
    parts = mine.at("parts");
    parameters = theirs.at("parameters");
  }
  const double tokens = tokens_per_step(bench.config);
  return {{"name", bench.name},
          {"parameters", parameters},
          {"ranks", ranks},
          {"ours_ms", median(ours) * 1e3},
          {"peer_ms", median(peer) * 1e3},
          {"ours_tokens_per_second", tokens / median(ours)},
          {"peer_tokens_per_second", tokens / median(peer)},
          {"ratio", median(ratios)},
          {"required", bench.required},
          {"parts_ms_rank0", parts}};
}

// The same tokens a step in M4 V2 S2 pieces: what the default Case pays for its logical pieces.
Json cost_of_pieces(int ranks, int steps) {
  Json rows = Json::array();
  struct Pieces {
    int micro_batches, tensor, sequence;
  };
  for (const auto [m, v, s] :
       {Pieces{ranks, 1, 1}, Pieces{4, 1, 1}, Pieces{4, 2, 1}, Pieces{4, 1, 2}, Pieces{4, 2, 2}}) {
    Config config = base_config(ranks, steps);
    config.training.global_batch = 16;
    config.training.micro_batch = 16 / m;
    config.numerics.tensor_pieces = v;
    config.numerics.sequence_pieces = s;
    rows.push_back({{"pieces", fmt::format("M{} V{} S{}", m, v, s)},
                    {"ms", measure_ours(config).at("seconds").get<double>() * 1e3}});
  }
  return rows;
}

}  // namespace

std::vector<StepBench> step_benches(int ranks) {
  StepBench tiny{.name = "tiny", .config = base_config(ranks, 60), .steps = 60, .required = 2.0};
  StepBench large{.name = "10.9M", .config = base_config(ranks, 12), .steps = 12, .required = 1.0};
  large.config.model = {.layers = 6, .width = 384, .heads = 6, .vocabulary = 256, .sequence = 128};
  return {tiny, large};
}

Json run_step_bench(const StepBenchOptions& options) {
  const std::string python = find_python(options.python);
  Json result{{"benches", Json::array()}, {"pieces", Json::array()}};
  for (const auto& bench : step_benches(options.ranks)) {
    if (options.quick && bench.name != "tiny") continue;
    result["benches"].push_back(
        run_one(bench, python, options.ranks, options.quick ? 1 : options.rounds));
  }
  result["pieces"] = cost_of_pieces(options.ranks, 60);
  return result;
}

void print_step_bench(const Json& result) {
  fmt::print("{:<8}{:>12}{:>12}{:>12}{:>16}{:>8}{:>10}\n", "model", "parameters", "ours ms",
             "DDP ms", "ours tokens/s", "ratio", "asked");
  for (const auto& row : result.at("benches"))
    fmt::print("{:<8}{:>12}{:>12.3f}{:>12.3f}{:>16.0f}{:>8.2f}{:>10.1f}\n",
               row.at("name").get<std::string>(), row.at("parameters").get<std::int64_t>(),
               row.at("ours_ms").get<double>(), row.at("peer_ms").get<double>(),
               row.at("ours_tokens_per_second").get<double>(), row.at("ratio").get<double>(),
               row.at("required").get<double>());
  fmt::print("\nparts of rank 0's step, ms\n");
  for (const auto& row : result.at("benches"))
    for (const auto& [part, seconds] : row.at("parts_ms_rank0").items())
      fmt::print("  {:<8}{:<16}{:>10.3f}\n", row.at("name").get<std::string>(), part,
                 seconds.get<double>() * 1e3);
  fmt::print("\ncost of logical pieces, tiny model, 16 rows a step\n");
  const double first = result.at("pieces").at(0).at("ms").get<double>();
  for (const auto& row : result.at("pieces"))
    fmt::print("  {:<12}{:>9.3f} ms {:>6.2f}x\n", row.at("pieces").get<std::string>(),
               row.at("ms").get<double>(), row.at("ms").get<double>() / first);
}

int step_bench_status(const Json& result) {
  for (const auto& row : result.at("benches"))
    if (row.at("ratio").get<double>() < row.at("required").get<double>()) return 1;
  return 0;
}

}  // namespace shardproof::bench

// step: runs ours and the peer in turns and compares medians.
#include "harness/bench/step.h"

#include <fmt/core.h>

#include <algorithm>

#include "harness/bench/measure.h"
#include "harness/bench/peer.h"

namespace shardproof::bench {
namespace {

StepTimes measure_config(const Config& config) {
  RunRequest request;
  request.config = config;
  return measure(std::move(request));
}

double tokens_per_step(const Config& config) {
  return static_cast<double>(config.training.global_batch) * config.model.sequence;
}

Json run_one(const StepBench& bench, const std::string& python, int ranks, int rounds) {
  std::vector<double> ours, peer, ratios;
  Json parts, parameters;
  for (int round = 0; round < rounds; ++round) {
    const StepTimes mine = measure_config(bench.config);
    const Json theirs = measure_peer(python, bench.peer, bench.config, ranks);
    ours.push_back(mine.seconds);
    peer.push_back(theirs.at("seconds").get<double>());
    ratios.push_back(peer.back() / ours.back());
    parts = mine.parts;
    parameters = theirs.at("parameters");
  }
  const double tokens = tokens_per_step(bench.config);
  return {{"name", bench.name},
          {"peer", bench.peer},
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
    Config config = plain_config(fmt::format("dp{}.zero1", ranks), ranks, steps);
    config.training.global_batch = 16;
    config.training.micro_batch = 16 / m;
    config.numerics.tensor_pieces = v;
    config.numerics.sequence_pieces = s;
    rows.push_back({{"pieces", fmt::format("M{} V{} S{}", m, v, s)},
                    {"ms", measure_config(config).seconds * 1e3}});
  }
  return rows;
}

}  // namespace

std::vector<StepBench> step_benches(int ranks) {
  constexpr int tiny_steps = 60, large_steps = 12;
  struct Row {
    const char* name;
    const char* layout;
    const char* reduction;
    const char* peer;
    double tiny, large;  // asked for
  };
  std::vector<StepBench> benches;
  for (const Row& row : {Row{"zero1", ".zero1", "canonical", "ddp", 2.0, 1.0},
                         Row{"native", "", "native", "ddp", 2.0, 1.05},
                         Row{"fsdp", ".fsdp", "native", "fsdp", 5.0, 1.3}}) {
    for (const bool large : {false, true}) {
      Config config = plain_config(fmt::format("dp{}{}", ranks, row.layout), ranks,
                                   large ? large_steps : tiny_steps);
      if (large) make_large(config);
      config.numerics.reduction = row.reduction;
      benches.push_back({fmt::format("{} {}", large ? "10.9M" : "tiny", row.name), row.peer, config,
                         large ? row.large : row.tiny});
    }
  }
  return benches;
}

Json run_step_bench(const StepBenchOptions& options) {
  const std::string python = find_python(options.python);
  Json result{{"benches", Json::array()}, {"pieces", Json::array()}};
  for (const auto& bench : step_benches(options.ranks)) {
    if (options.quick && !bench.name.starts_with("tiny")) continue;
    result["benches"].push_back(
        run_one(bench, python, options.ranks, options.quick ? 1 : options.rounds));
  }
  result["pieces"] = cost_of_pieces(options.ranks, 60);
  return result;
}

void print_step_bench(const Json& result) {
  fmt::print("{:<14}{:>6}{:>12}{:>10}{:>10}{:>15}{:>8}{:>8}\n", "model, ours", "peer", "parameters",
             "ours ms", "peer ms", "ours tokens/s", "ratio", "asked");
  for (const auto& row : result.at("benches"))
    fmt::print("{:<14}{:>6}{:>12}{:>10.3f}{:>10.3f}{:>15.0f}{:>8.2f}{:>8.2f}\n",
               row.at("name").get<std::string>(), row.at("peer").get<std::string>(),
               row.at("parameters").get<std::int64_t>(), row.at("ours_ms").get<double>(),
               row.at("peer_ms").get<double>(), row.at("ours_tokens_per_second").get<double>(),
               row.at("ratio").get<double>(), row.at("required").get<double>());
  fmt::print("\nparts of rank 0's step, ms\n");
  for (const auto& row : result.at("benches"))
    for (const auto& [part, seconds] : row.at("parts_ms_rank0").items())
      fmt::print("  {:<14}{:<16}{:>10.3f}\n", row.at("name").get<std::string>(), part,
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

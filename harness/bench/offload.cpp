// offload: the same run three times a round.
#include "harness/bench/offload.h"

#include <fmt/core.h>

#include <map>
#include <string>

#include "harness/bench/measure.h"

namespace shardproof::bench {
namespace {

constexpr int steps = 12;
constexpr const char* places[] = {"none", "host", "file"};

StepTimes measure_with(Config config, const std::string& to) {
  config.parallel.offload_optimizer = to;
  if (parse_layout(config.run.layout).zero == 3) config.parallel.offload_parameters = to;
  RunRequest request;
  request.config = std::move(config);
  return measure(std::move(request));
}

}  // namespace

Json run_offload_bench(const OffloadBenchOptions& options) {
  Json rows = Json::array();
  for (const char* layout : {"dp2.zero1", "dp2.zero3"}) {
    Config config = plain_config(layout, 2, steps);
    config.run.backend = "threads";
    if (!options.quick) make_large(config);
    std::map<std::string, std::vector<double>> ms, optimizer_ms, ratios;
    for (int round = 0; round < (options.quick ? 1 : options.rounds); ++round) {
      for (const char* to : places) {
        const StepTimes times = measure_with(config, to);
        ms[to].push_back(times.seconds * 1e3);
        optimizer_ms[to].push_back(times.parts.at("optimizer").get<double>() * 1e3);
        ratios[to].push_back(ms[to].back() / ms["none"].back());
      }
    }
    for (const char* to : places) {
      rows.push_back({{"layout", layout},
                      {"to", to},
                      {"ms", median(ms[to])},
                      {"optimizer_ms", median(optimizer_ms[to])},
                      {"ratio", median(ratios[to])}});
    }
  }
  return rows;
}

void print_offload_bench(const Json& result) {
  fmt::print("{:<12}{:>8}{:>12}{:>14}{:>8}\n", "layout", "to", "step ms", "optimizer ms", "ratio");
  for (const Json& row : result) {
    fmt::print("{:<12}{:>8}{:>12.1f}{:>14.2f}{:>8.2f}\n", row.at("layout").get<std::string>(),
               row.at("to").get<std::string>(), row.at("ms").get<double>(),
               row.at("optimizer_ms").get<double>(), row.at("ratio").get<double>());
  }
}

}  // namespace shardproof::bench

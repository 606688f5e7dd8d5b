// reduction: the same run twice a round.
#include "harness/bench/reduction.h"

#include <fmt/core.h>

#include "harness/bench/measure.h"

namespace shardproof::bench {
namespace {

constexpr int steps = 12;
constexpr double at_most = 1.25;

struct Row {
  const char* name;
  const char* layout;
  int micro_batches, tensor_pieces, sequence_pieces;
  double limit;  // 0: none is asked
};

constexpr Row rows[] = {{"dp2 M2", "dp2", 2, 1, 1, at_most},
                        {"tp2 M1 V2", "tp2", 1, 2, 1, at_most},
                        {"pp2 M4", "pp2", 4, 1, 1, at_most},
                        {"dp2 M4 V2 S2", "dp2", 4, 2, 2, 0}};

double measure_ms(Config config, const char* reduction) {
  config.numerics.reduction = reduction;
  RunRequest request;
  request.config = std::move(config);
  return measure(std::move(request)).seconds * 1e3;
}

}  // namespace

Json run_reduction_bench(const ReductionBenchOptions& options) {
  Json result{{"rows", Json::array()}};
  for (const Row& row : rows) {
    Config config = plain_config(row.layout, 2, steps);
    if (!options.quick) make_large(config);
    config.training.global_batch = 8;
    config.training.micro_batch = 8 / row.micro_batches;
    config.numerics.tensor_pieces = row.tensor_pieces;
    config.numerics.sequence_pieces = row.sequence_pieces;
    std::vector<double> canonical, native, ratios;
    for (int round = 0; round < (options.quick ? 1 : options.rounds); ++round) {
      canonical.push_back(measure_ms(config, "canonical"));
      native.push_back(measure_ms(config, "native"));
      ratios.push_back(canonical.back() / native.back());
    }
    result["rows"].push_back({{"layout", row.name},
                              {"canonical_ms", median(canonical)},
                              {"native_ms", median(native)},
                              {"ratio", median(ratios)},
                              {"at_most", row.limit}});
  }
  return result;
}

void print_reduction_bench(const Json& result) {
  fmt::print("{:<14}{:>14}{:>12}{:>8}{:>9}\n", "layout", "canonical ms", "native ms", "ratio",
             "at most");
  for (const Json& row : result.at("rows")) {
    const auto limit = row.at("at_most").get<double>();
    fmt::print("{:<14}{:>14.1f}{:>12.1f}{:>8.2f}{:>9}\n", row.at("layout").get<std::string>(),
               row.at("canonical_ms").get<double>(), row.at("native_ms").get<double>(),
               row.at("ratio").get<double>(), limit > 0 ? fmt::format("{:.2f}", limit) : "-");
  }
}

int reduction_bench_status(const Json& result) {
  for (const Json& row : result.at("rows")) {
    const auto limit = row.at("at_most").get<double>();
    if (limit > 0 && row.at("ratio").get<double>() > limit) return 1;
  }
  return 0;
}

}  // namespace shardproof::bench

// overlap: exposed communication, from the metrics of rank 0.
#include "harness/bench/overlap.h"

#include <fmt/core.h>

#include "harness/bench/measure.h"
#include "model/gpt_shape.h"
#include "train/sections.h"

namespace shardproof::bench {
namespace {

constexpr double at_least = 0.6;

Config config_of(bool overlap, bool quick) {
  Config config = plain_config("dp2", 2, 12);
  make_large(config);
  if (quick) config.model.layers = 2;
  config.run.backend = "threads";
  config.numerics.reduction = "native";
  config.parallel.bucket_bytes = 1 << 20;
  config.parallel.overlap = overlap;
  return config;
}

struct Parts {
  double backward = 0, communication = 0;
};

Parts parts_of(bool overlap, bool quick, std::optional<CommunicationDelay> delay) {
  RunRequest request;
  request.config = config_of(overlap, quick);
  request.delay = delay;
  const Json parts = measure(std::move(request)).parts;
  return {parts.at("backward").get<double>(), parts.at("communication").get<double>()};
}

// Bytes a second at which the gradients of a step take as long as its backward.
CommunicationDelay slow_down(double backward, bool quick) {
  const double bytes = 4 * parameter_count(shape_of(config_of(true, quick)));
  return {Duration{}, bytes / backward};
}

Json compare(bool quick, int rounds, std::optional<CommunicationDelay> delay) {
  std::vector<double> off, on;
  for (int round = 0; round < rounds; ++round) {
    off.push_back(parts_of(false, quick, delay).communication);
    on.push_back(parts_of(true, quick, delay).communication);
  }
  return {{"off_ms", median(off) * 1e3},
          {"on_ms", median(on) * 1e3},
          {"hidden", 1 - median(on) / median(off)}};
}

}  // namespace

Json run_overlap_bench(const OverlapBenchOptions& options) {
  const int rounds = options.quick ? 1 : options.rounds;
  const double backward = parts_of(false, options.quick, std::nullopt).backward;
  return {{"backward_ms", backward * 1e3},
          {"slowed", compare(options.quick, rounds, slow_down(backward, options.quick))},
          {"plain", compare(options.quick, rounds, std::nullopt)},
          {"at_least", at_least}};
}

void print_overlap_bench(const Json& result) {
  fmt::print("backward {:.1f} ms\n{:<10}{:>22}{:>22}{:>9}\n",
             result.at("backward_ms").get<double>(), "network", "exposed ms, no overlap",
             "exposed ms, overlap", "hidden");
  for (const char* network : {"slowed", "plain"}) {
    const Json& row = result.at(network);
    fmt::print("{:<10}{:>22.1f}{:>22.1f}{:>8.0f}%\n", network, row.at("off_ms").get<double>(),
               row.at("on_ms").get<double>(), 100 * row.at("hidden").get<double>());
  }
  fmt::print("asked: {:.0f}% hidden where communication costs as much as the backward\n",
             100 * result.at("at_least").get<double>());
}

int overlap_bench_status(const Json& result) {
  return result.at("slowed").at("hidden").get<double>() >= result.at("at_least").get<double>() ? 0
                                                                                               : 1;
}

}  // namespace shardproof::bench

// pipeline: one run for each schedule and number of micro-batches.
#include "harness/bench/pipeline.h"

#include <fmt/core.h>

#include <string>

#include "harness/bench/measure.h"
#include "harness/world.h"
#include "parallel/schedule_simulator.h"

namespace shardproof::bench {
namespace {

constexpr int rows = 2;  // of a micro-batch

Config config_of(const std::string& schedule, int micro_batches,
                 const PipelineBenchOptions& options) {
  Config config;
  if (options.quick) {
    config.model.layers = 4;
  } else {
    config.model = {.layers = 8, .width = 256, .heads = 4, .vocabulary = 256, .sequence = 128};
  }
  config.training.micro_batch = rows;
  config.training.global_batch = rows * micro_batches;
  config.training.steps = warm_up_steps + options.steps;
  config.numerics.tensor_pieces = 1;
  config.numerics.sequence_pieces = 1;
  config.run.layout = "pp2-" + schedule;
  config.run.deadline = 300;
  return config;
}

double in(const StepMetrics& step, Part part) {
  return step.parts[static_cast<std::size_t>(part)];
}

Json measure(const std::string& schedule, int micro_batches, const PipelineBenchOptions& options) {
  RunRequest request;
  request.config = config_of(schedule, micro_batches, options);
  std::vector<double> spans, idles, shares;
  request.on_step = [&](const StepResult& result, const StepMetrics& step) {
    if (result.step < warm_up_steps) return;
    spans.push_back(in(step, Part::forward) + in(step, Part::backward));
    idles.push_back(step.pipeline_idle);
    shares.push_back(idles.back() / spans.back());
  };
  run_on_threads(request);
  return {{"schedule", schedule},
          {"micro_batches", micro_batches},
          {"ms", median(spans) * 1e3},
          {"idle_ms", median(idles) * 1e3},
          {"idle", median(shares)},
          {"formula", bubble_formula(parse_layout(request.config.run.layout), micro_batches)}};
}

}  // namespace

Json run_pipeline_bench(const PipelineBenchOptions& options) {
  Json result = Json::array();
  for (const int micro_batches : {4, 8}) {
    for (const char* schedule : {"gpipe", "1f1b", "int2", "zb"}) {
      result.push_back(measure(schedule, micro_batches, options));
    }
  }
  return result;
}

void print_pipeline_bench(const Json& result) {
  fmt::print(
      "two stages on two thread ranks: forward and backward of stage 0, and its idle part\n");
  fmt::print("{:<10}{:>14}{:>12}{:>12}{:>10}{:>10}\n", "schedule", "micro-batches", "ms", "idle ms",
             "idle %", "formula");
  for (const Json& row : result) {
    fmt::print("{:<10}{:>14}{:>12.2f}{:>12.2f}{:>10.1f}{:>10.1f}\n",
               row.at("schedule").get<std::string>(), row.at("micro_batches").get<int>(),
               row.at("ms").get<double>(), row.at("idle_ms").get<double>(),
               100 * row.at("idle").get<double>(), 100 * row.at("formula").get<double>());
  }
}

}  // namespace shardproof::bench

// faults: see faults.h.
#include "harness/bench/faults.h"

#include <fmt/core.h>

#include "base/error.h"
#include "harness/campaign.h"

namespace shardproof::bench {
namespace {

constexpr double required = 20;  // scenarios a second

Config smallest_case() {
  return with_fault_defaults(parse_run_line(
      "model.layers=1 model.width=4 model.heads=1 model.vocabulary=8 model.sequence=4 "
      "data.samples=64 training.steps=3 training.global_batch=2 training.micro_batch=1 "
      "numerics.tensor_pieces=1 numerics.sequence_pieces=1 run.layout=dp2.zero1"));
}

Json run_one(const char* name, const std::vector<FaultKind>& kinds, double seconds) {
  CampaignOptions options;
  options.config = smallest_case();
  options.kinds = kinds;
  options.budget_seconds = seconds;
  std::string broken;
  options.ended = [&](const FaultScenario& scenario, const FaultResult& result) {
    if (!result.pass) broken = fmt::format("{}: {}", text(scenario.faults), result.why);
  };
  const CampaignReport report = run_campaign(options);
  if (!broken.empty()) throw Error(ErrorKind::corrupt, "a fault scenario", broken);
  int ran = 0, fired = 0;
  for (const auto& [kind, count] : report.kinds) {
    ran += count.ran;
    fired += count.fired;
  }
  const double rate = ran / report.seconds;
  return {{"name", name},       {"scenarios", ran},     {"fired", fired},
          {"per_second", rate}, {"required", required}, {"ratio", rate / required}};
}

}  // namespace

Json run_fault_bench(const FaultBenchOptions& options) {
  const double seconds = options.quick ? 0.3 : 5;
  return {run_one("a rank dies", {FaultKind::kill}, seconds),
          run_one("a wrong call", {FaultKind::dtype, FaultKind::count, FaultKind::order}, seconds),
          run_one("a failing file", {FaultKind::disk_full, FaultKind::io_error}, seconds)};
}

void print_fault_bench(const Json& result) {
  fmt::print("{:<20}{:>11}{:>8}{:>11}{:>8}{:>8}\n", "fault scenarios", "scenarios", "fired",
             "a second", "asked", "ratio");
  for (const Json& row : result) {
    fmt::print("{:<20}{:>11}{:>8}{:>11.1f}{:>8.0f}{:>8.2f}\n", row.at("name").get<std::string>(),
               row.at("scenarios").get<int>(), row.at("fired").get<int>(),
               row.at("per_second").get<double>(), row.at("required").get<double>(),
               row.at("ratio").get<double>());
  }
}

int fault_bench_status(const Json& result) {
  for (const Json& row : result) {
    if (row.at("ratio").get<double>() < 1) return 1;
  }
  return 0;
}

}  // namespace shardproof::bench

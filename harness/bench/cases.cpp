// cases: a loop over Cases with a stopwatch for each part.
#include "harness/bench/cases.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/clock.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"

namespace shardproof::bench {
namespace {

double now() {
  return std::chrono::duration<double>(Clock::real().now()).count();
}

struct Seconds {
  double reference = 0;  // one rank
  double ranks = 0;      // the layout
  double judge = 0;
  double sum() const { return reference + ranks + judge; }
};

void prove_one(const Config& config, Seconds& spent) {
  Config alone = config;
  alone.run.layout = "dp1";
  const double begun = now();
  const Trace reference = traced_in_memory(alone);
  const double referred = now();
  const Trace trace = traced_in_memory(config);
  const double run = now();
  const Verdict verdict = check_layout(reference, trace);
  const double judged = now();
  SP_CHECK(verdict.outcome == Outcome::pass, run_line(config) + ": " + verdict.reason);
  spent.reference += referred - begun;
  spent.ranks += run - referred;
  spent.judge += judged - run;
}

Json run_one(const CaseBench& bench, double seconds) {
  Seconds warm, spent;
  for (const Config& config : bench.configs) prove_one(config, warm);
  int cases = 0;
  while (spent.sum() < seconds) {
    prove_one(bench.configs[static_cast<std::size_t>(cases++) % bench.configs.size()], spent);
  }
  const double each = spent.sum() / cases;
  const auto ms = [&](double part) { return part / cases * 1e3; };
  return {{"name", bench.name},
          {"cases", cases},
          {"per_second", 1 / each},
          {"required", bench.required},
          {"ratio", 1 / each / bench.required},
          {"parts_ms",
           {{"one rank", ms(spent.reference)},
            {"the layout", ms(spent.ranks)},
            {"judgement", ms(spent.judge)}}}};
}

}  // namespace

std::vector<CaseBench> case_benches() {
  CaseBench tiny{"tiny", {}, 100};
  Config config;
  config.model = {.layers = 1, .width = 8, .heads = 2, .vocabulary = 13, .sequence = 4};
  config.data.samples = 64;
  config.training.steps = 1;
  config.training.micro_batch = 1;
  config.training.global_batch = 2;
  for (const char* layout : {"dp2.tp2.zero1", "dp2.cp2", "tp2.cp2", "dp2.tp2.zero3"}) {
    config.run.layout = layout;
    tiny.configs.push_back(config);
  }
  CaseBench usual{"default", {Config{}}, 10};
  usual.configs[0].training.steps = 1;
  return {tiny, usual};
}

Json run_case_bench(const CaseBenchOptions& options) {
  Json result = Json::array();
  for (const CaseBench& bench : case_benches()) result.push_back(run_one(bench, options.seconds));
  return result;
}

void print_case_bench(const Json& result) {
  fmt::print("{:<10}{:>8}{:>12}{:>8}{:>8}   {}\n", "case", "cases", "a second", "asked", "ratio",
             "milliseconds a case");
  for (const Json& row : result) {
    std::string parts;
    for (const auto& [part, ms] : row.at("parts_ms").items()) {
      parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", part, ms.get<double>());
    }
    fmt::print("{:<10}{:>8}{:>12.1f}{:>8.0f}{:>8.2f}   {}\n", row.at("name").get<std::string>(),
               row.at("cases").get<int>(), row.at("per_second").get<double>(),
               row.at("required").get<double>(), row.at("ratio").get<double>(), parts);
  }
}

int case_bench_status(const Json& result) {
  for (const Json& row : result) {
    if (row.at("ratio").get<double>() < 1) return 1;
  }
  return 0;
}

}  // namespace shardproof::bench

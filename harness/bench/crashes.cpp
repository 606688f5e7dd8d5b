// crashes: see crashes.h.
#include "harness/bench/crashes.h"

#include <fmt/core.h>

#include <chrono>

#include "base/error.h"
#include "faults/crash_states/scenarios.h"

namespace shardproof::bench {
namespace {

using crash::Scenario;
using crash::Tally;
using crash::Verdict;

constexpr double required = 500;  // states a second

Json run_one(const std::string& name, const std::vector<Scenario>& scenarios, std::size_t stride) {
  crash::SurveyOptions options;
  options.stride = stride;
  Tally all;
  const auto start = std::chrono::steady_clock::now();
  for (const Scenario& scenario : scenarios) all.add(crash::survey(scenario, options));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!all.broken.empty()) {
    throw Error(ErrorKind::corrupt, "a crash state of " + name, all.broken.front());
  }
  const double rate = static_cast<double>(all.judged) / seconds.count();
  return {{"name", name},
          {"derived", all.derived},
          {"different", all.different},
          {"judged", all.judged},
          {"old", all.count(Verdict::old_one)},
          {"new", all.count(Verdict::new_one)},
          {"none_yet", all.count(Verdict::none_yet)},
          {"per_second", rate},
          {"required", required},
          {"ratio", rate / required}};
}

}  // namespace

Json run_crash_bench(const CrashBenchOptions& options) {
  const std::size_t stride = options.quick ? 64 : 1;
  return {run_one("saves", crash::plain_saves(), stride),
          run_one("after a kill or error", crash::interrupted_saves(), stride),
          run_one("two writers", crash::two_writers(), stride)};
}

void print_crash_bench(const Json& result) {
  fmt::print("{:<24}{:>10}{:>11}{:>9}{:>9}{:>9}{:>10}{:>10}{:>7}{:>7}\n", "states after a crash",
             "derived", "different", "judged", "old", "new", "none yet", "a second", "asked",
             "ratio");
  for (const Json& row : result) {
    const auto count = [&](const char* key) { return row.at(key).get<std::size_t>(); };
    fmt::print("{:<24}{:>10}{:>11}{:>9}{:>9}{:>9}{:>10}{:>10.0f}{:>7.0f}{:>7.2f}\n",
               row.at("name").get<std::string>(), count("derived"), count("different"),
               count("judged"), count("old"), count("new"), count("none_yet"),
               row.at("per_second").get<double>(), row.at("required").get<double>(),
               row.at("ratio").get<double>());
  }
}

int crash_bench_status(const Json& result) {
  for (const Json& row : result) {
    if (row.at("ratio").get<double>() < 1) return 1;
  }
  return 0;
}

}  // namespace shardproof::bench

// recovery: signals to ranks of supervised runs, and what was heard when.
#include "harness/bench/recovery.h"

#include <fmt/core.h>

#include <csignal>
#include <vector>

#include "base/error.h"
#include "base/temp_folder.h"
#include "harness/bench/elastic.h"
#include "harness/bench/measure.h"
#include "harness/bench/traced_pid.h"
#include "harness/supervisor.h"

namespace shardproof::bench {
namespace {

constexpr double death_seconds = 0.5, hang_seconds = 2, elastic_seconds = 3;
constexpr int victim = 2;

struct Measured {
  double named = -1;  // seconds after the signal
  double step = -1;   // the next one that was done
  std::vector<Recovery::Part> parts;
};

Measured after_signal(int signal, const std::string& program) {
  const TempFolder folder;
  RunRequest request;
  Config& config = request.config;
  config.run.backend = "mpi";
  config.run.restarts = 1;
  config.run.restart_seconds = 0;
  config.training.steps = 8;
  config.checkpoint.directory = folder.file("checkpoints");
  config.checkpoint.every = 1;
  request.trace.directory = folder.file("trace");
  request.program = program;
  Measured out;
  Duration sent{};
  const auto since = [&] {
    return std::chrono::duration<double>(Clock::real().now() - sent).count();
  };
  constexpr std::int64_t signal_after = 5;
  bool signalled = false;
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    if (!signalled && result.step == signal_after) {
      signalled = true;
      sent = Clock::real().now();
      ::kill(traced_pid(request.trace.directory, victim), signal);
    }
  };
  Supervision supervision;
  supervision.say = [&](const std::string& line) {
    fmt::print(stderr, "{}\n", line);
    if (signalled && out.named < 0) out.named = since();
  };
  supervision.recovered = [&](const Recovery& recovery) {
    out.step = since();
    out.parts = recovery.parts;
  };
  supervise(request, supervision);
  if (out.named < 0 || out.step < 0) {
    throw Error(ErrorKind::mismatch, "bench recovery",
                fmt::format("the run went on without a rank that got signal {}", signal));
  }
  return out;
}

// Of a table of recoveries; `at_most` 0: nothing is asked.
Json recovery_row(const std::string& what, const std::vector<Measured>& rounds, double at_most) {
  Json row{{"what", what}, {"at_most", at_most > 0 ? Json(at_most) : Json(nullptr)}};
  std::vector<double> all;
  for (const Measured& each : rounds) all.push_back(each.step);
  row["seconds"] = median(all);
  for (const Recovery::Part& part : rounds.front().parts) {
    std::vector<double> seconds;
    for (const Measured& each : rounds) {
      for (const Recovery::Part& other : each.parts) {
        if (other.name == part.name) seconds.push_back(other.seconds);
      }
    }
    row["parts"].push_back({{"part", part.name}, {"seconds", median(seconds)}});
  }
  return row;
}

Json verdict_row(const std::string& what, const std::vector<Measured>& rounds, double at_most) {
  std::vector<double> named;
  for (const Measured& each : rounds) named.push_back(each.named);
  return {{"what", what}, {"seconds", median(named)}, {"at_most", at_most}};
}

}  // namespace

Json run_recovery_bench(const RecoveryBenchOptions& options) {
  std::vector<Measured> killed, stopped, outlived;
  for (int round = 0; round < (options.quick ? 1 : options.rounds); ++round) {
    killed.push_back(after_signal(SIGKILL, options.program));
    stopped.push_back(after_signal(SIGSTOP, options.program));
    const ElasticRecovery in_place = measure_elastic(options.program);
    outlived.push_back({0, in_place.seconds, in_place.parts});
  }
  Json result;
  result["verdicts"] = {verdict_row("SIGKILL to its line", killed, death_seconds),
                        verdict_row("SIGSTOP to its line", stopped, hang_seconds)};
  result["recoveries"] = {
      recovery_row("in place, 4 to 3, after SIGKILL", outlived, elastic_seconds),
      recovery_row("restart after SIGKILL", killed, 0),
      recovery_row("restart after SIGSTOP", stopped, 0)};
  return result;
}

void print_recovery_bench(const Json& result) {
  const auto at_most = [](const Json& row) {
    return row.at("at_most").is_null() ? "-"
                                       : fmt::format("{:.1f}", row.at("at_most").get<double>());
  };
  fmt::print("{:<44}{:>10}{:>9}\n", "one of four ranks", "seconds", "at most");
  for (const Json& row : result.at("verdicts")) {
    fmt::print("{:<44}{:>10.2f}{:>9}\n", row.at("what").get<std::string>(),
               row.at("seconds").get<double>(), at_most(row));
  }
  for (const Json& row : result.at("recoveries")) {
    fmt::print("\n{:<44}{:>10.2f}{:>9}\n", row.at("what").get<std::string>() + " to a step done",
               row.at("seconds").get<double>(), at_most(row));
    for (const Json& part : row.at("parts")) {
      fmt::print("  {:<42}{:>10.2f}\n", part.at("part").get<std::string>(),
                 part.at("seconds").get<double>());
    }
  }
}

int recovery_bench_status(const Json& result) {
  for (const char* table : {"verdicts", "recoveries"}) {
    for (const Json& row : result.at(table)) {
      if (row.at("at_most").is_null()) continue;
      if (row.at("seconds").get<double>() > row.at("at_most").get<double>()) return 1;
    }
  }
  return 0;
}

}  // namespace shardproof::bench

// guards: runs in turns, worlds of thread ranks that only agree, and planted hangs.
#include "harness/bench/guards.h"

#include <fmt/core.h>

#include <bit>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"
#include "comm/stack.h"
#include "comm/thread_communicator.h"
#include "comm/watchdog.h"
#include "harness/bench/measure.h"
#include "harness/rank_pool.h"

namespace shardproof::bench {
namespace {

constexpr double step_ratio = 1.05, tiny_mpi_ratio = 1.10, hang_seconds = 2;
constexpr int ranks = 4;

RunRequest request_of(const std::string& model, const std::string& backend, bool guarded) {
  RunRequest request;
  Config& config = request.config;
  if (model == "10.9 M") {
    config = plain_config("dp4.zero1", ranks, 6);
    make_large(config);
    config.numerics.reduction = "native";
  } else {
    config.training.steps = warm_up_steps + 40;
  }
  config.run.layout = "dp4.zero1";
  config.run.backend = backend;
  config.guard.verify = config.guard.watch = guarded;
  return request;
}

Json step_row(const std::string& model, const std::string& backend, int rounds) {
  std::vector<double> on, off, ratios;
  for (int round = 0; round < rounds; ++round) {
    off.push_back(measure(request_of(model, backend, false)).seconds);
    on.push_back(measure(request_of(model, backend, true)).seconds);
    ratios.push_back(on.back() / off.back());
  }
  const bool tiny_mpi = model != "10.9 M" && backend == "mpi";
  return {{"model", model},
          {"backend", backend},
          {"off_ms", median(off) * 1e3},
          {"on_ms", median(on) * 1e3},
          {"ratio", median(ratios)},
          {"at_most", tiny_mpi ? tiny_mpi_ratio : step_ratio}};
}

// Barriers of `size` thread ranks: of the backend alone they need no data.
Json agreement_row(int size, AgreementWay way, int calls) {
  ThreadWorld world(size);
  std::uint64_t rounds = 0;
  double seconds = 0;
  run_ranks(
      size,
      [&](int rank) {
        StackOptions options;
        options.verify.emplace().way = way;
        const auto counters = options.verify->counters;
        const auto comm = wrap(world.communicator(rank), options);
        barrier(*comm);
        const std::uint64_t before = counters->rounds;
        const Duration begin = Clock::real().now();
        for (int call = 0; call < calls; ++call) barrier(*comm);
        const std::uint64_t mine = counters->rounds - before;
        const std::vector<std::string> all = all_gather_text(*comm, std::to_string(mine));
        if (rank != 0) return;
        seconds = std::chrono::duration<double>(Clock::real().now() - begin).count();
        for (const std::string& each : all) {
          rounds = std::max<std::uint64_t>(rounds, std::stoull(each));
        }
      },
      [&] { world.revoke_all(); });
  return {{"ranks", size},
          {"way", way == AgreementWay::messages ? "messages" : "shared memory"},
          {"rounds", static_cast<double>(rounds) / calls},
          {"at_most", 2 * std::bit_width(static_cast<unsigned>(size - 1))},
          {"us", seconds * 1e6 / calls}};
}

// Two thread ranks that wait for a message of each other.
double circle_seconds() {
  ThreadWorld world(2);
  Watchdog watchdog{WatchLimits{}};
  const Duration begin = Clock::real().now();
  const auto body = [&](int rank) {
    const auto recorder = std::make_shared<FlightRecorder>(rank);
    StackOptions options;
    options.recorder = recorder;
    options.watch = std::make_shared<RankWatch>(recorder, watchdog.limits().look);
    options.verify.emplace();
    watchdog.join(options.watch);
    const auto comm = wrap(world.communicator(rank), options);
    std::uint8_t byte = 0;
    recv(*comm, &byte, 1, Dtype::u8, 1 - rank, 0);
  };
  try {
    run_ranks(2, body, [&] { world.revoke_all(); });
  } catch (const Error&) {
    return std::chrono::duration<double>(Clock::real().now() - begin).count();
  }
  throw Error(ErrorKind::mismatch, "bench guards", "two ranks that wait for each other have ended");
}

// From when the launcher found rank 2 stopped to the verdict of the others.
double stop_seconds() {
  const TempFolder folder;
  RunRequest request = request_of("default", "mpi", true);
  request.config.run.fault = "2:2:backward:stop";
  request.trace.directory = folder.path() + "/trace";
  try {
    run(request);
  } catch (const Error&) {  // that it ends so is what is measured
  }
  double stopped = -1, named = -1;
  std::ifstream file(request.trace.directory + "/harness.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json event = parse_json(line, "harness.jsonl");
    const std::string kind = event.at("kind").get<std::string>();
    if (kind == "stopped") stopped = event.at("seconds").get<double>();
    if (kind == "hang") named = event.at("seconds").get<double>();
  }
  if (stopped < 0 || named < 0) {
    throw Error(ErrorKind::mismatch, "bench guards", "a stopped rank was not named");
  }
  return named - stopped;
}

}  // namespace

Json run_guard_bench(const GuardBenchOptions& options) {
  Json result{{"steps", Json::array()}, {"agreements", Json::array()}, {"hangs", Json::array()}};
  const int rounds = options.quick ? 3 : options.rounds;
  for (const char* model : {"default", "10.9 M"}) {
    if (options.quick && std::string(model) != "default") continue;
    for (const char* backend : {"threads", "mpi"}) {
      result["steps"].push_back(step_row(model, backend, rounds));
    }
  }
  for (const AgreementWay way : {AgreementWay::shared_memory, AgreementWay::messages}) {
    for (int size = 2; size <= 64; size *= 2) {
      result["agreements"].push_back(agreement_row(size, way, options.quick ? 50 : 500));
    }
  }
  const auto hang = [&](const char* what, double seconds) {
    result["hangs"].push_back({{"what", what}, {"seconds", seconds}, {"at_most", hang_seconds}});
  };
  hang("two threads in a circle", circle_seconds());
  hang("one of four processes stopped", stop_seconds());
  return result;
}

void print_guard_bench(const Json& result) {
  fmt::print("{:<10}{:<10}{:>12}{:>12}{:>9}{:>9}\n", "model", "ranks", "off ms", "on ms", "ratio",
             "at most");
  for (const Json& row : result.at("steps")) {
    fmt::print("{:<10}{:<10}{:>12.2f}{:>12.2f}{:>9.3f}{:>9.2f}\n",
               row.at("model").get<std::string>(), "4 " + row.at("backend").get<std::string>(),
               row.at("off_ms").get<double>(), row.at("on_ms").get<double>(),
               row.at("ratio").get<double>(), row.at("at_most").get<double>());
  }
  fmt::print("\n{:<8}{:<16}{:>20}{:>9}{:>16}\n", "ranks", "agreement by", "waits a collective",
             "at most", "us a barrier");
  for (const Json& row : result.at("agreements")) {
    fmt::print("{:<8}{:<16}{:>20.2f}{:>9}{:>16.1f}\n", row.at("ranks").get<int>(),
               row.at("way").get<std::string>(), row.at("rounds").get<double>(),
               row.at("at_most").get<int>(), row.at("us").get<double>());
  }
  fmt::print("\n{:<32}{:>12}{:>9}\n", "hang", "seconds", "at most");
  for (const Json& row : result.at("hangs")) {
    fmt::print("{:<32}{:>12.2f}{:>9.0f}\n", row.at("what").get<std::string>(),
               row.at("seconds").get<double>(), row.at("at_most").get<double>());
  }
}

int guard_bench_status(const Json& result) {
  const auto met = [&](const char* table, const char* figure) {
    for (const Json& row : result.at(table)) {
      if (row.at(figure).get<double>() > row.at("at_most").get<double>()) return false;
    }
    return true;
  };
  return met("steps", "ratio") && met("agreements", "rounds") && met("hangs", "seconds") ? 0 : 1;
}

}  // namespace shardproof::bench

// elastic: one kill, and what was heard when.
#include "harness/bench/elastic.h"

#include <csignal>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"
#include "harness/bench/traced_pid.h"
#include "harness/world.h"

namespace shardproof::bench {
namespace {

constexpr int victim = 2;
constexpr std::int64_t signal_after = 5;

// The recovery in the trace, which says how long each part took since a survivor stopped.
Json recovery_of(const std::string& trace) {
  const std::string path = trace + "/harness.jsonl";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Json event = parse_json(line, path);
    if (event.at("kind") == "recovery") return event;
  }
  throw Error(ErrorKind::mismatch, "bench recovery", "no rank went on in place after a SIGKILL");
}

}  // namespace

ElasticRecovery measure_elastic(const std::string& program) {
  const TempFolder folder;
  RunRequest request;
  request.config.run.backend = "mpi";
  request.config.run.elastic = true;
  request.config.checkpoint.directory = folder.file("checkpoints");
  request.config.checkpoint.every = 1;
  request.trace.directory = folder.file("trace");
  request.program = program;
  Duration sent{};
  std::map<std::int64_t, double> done;  // the last time that each step was
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    if (sent != Duration::zero()) {
      done[result.step] = std::chrono::duration<double>(Clock::real().now() - sent).count();
    } else if (result.step == signal_after) {
      sent = Clock::real().now();
      ::kill(traced_pid(request.trace.directory, victim), SIGKILL);
    }
  };
  run_on_mpi(request);
  const Json recovery = recovery_of(request.trace.directory);
  ElasticRecovery out;
  out.seconds = done[integer_member(recovery, "step", "recovery")];
  double told = 0;
  for (const char* part : {"regroup", "start", "data", "load", "step"}) {
    const double seconds = recovery.at("parts").at(part);
    told += seconds;
    out.parts.push_back({part, seconds});
  }
  out.parts.insert(out.parts.begin(), {"notice", out.seconds - told});
  return out;
}

}  // namespace shardproof::bench

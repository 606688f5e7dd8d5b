// One leg: a request, its errors kept, its trace read.
#include "harness/leg.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "harness/output_path.h"
#include "harness/prepare.h"
#include "harness/supervisor.h"
#include "harness/world.h"

namespace shardproof {
namespace {

// A leg takes seconds; this long means that something hangs.
constexpr auto leg_deadline = std::chrono::minutes(5);

// The seconds by part, and those of offload, of a metrics file of rank 0; zeros when there is none.
void read_seconds(const std::filesystem::path& file, LegResult& out) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const Json step = parse_json(line, file.string());
    const Json parts = step.value("parts", Json::object());
    for (int i = 0; i < part_count; ++i) {
      const auto key = std::string(name(static_cast<Part>(i)));
      if (parts.contains(key)) out.parts[static_cast<std::size_t>(i)] += parts[key].get<double>();
    }
    for (const char* what : {"optimizer", "parameters"}) {  // views are of no part
      const Json offload = step.value("offload", Json::object());
      out.offload_seconds += offload.value(what, Json::object()).value("seconds", 0.0);
    }
  }
}

void write_run_line(const Config& config, const std::string& path) {
  std::ofstream file(path);
  errno = 0;
  file << run_line(config) << "\n" << std::flush;
  if (!file) throw Error(ErrorKind::io, "write " + path, std::strerror(errno));
}

}  // namespace

const Trace& trace_of(const Traces& traces, const std::string& leg) {
  static const Trace none;
  const auto found = traces.find(leg);
  return found == traces.end() ? none : found->second;
}

LegResult run_leg(const Leg& leg, const std::string& directory, const std::atomic<bool>* stop) {
  const std::filesystem::path root(directory);
  make_fresh_folder(directory);
  refuse_restarts(leg.config, "a leg of an acceptance run");
  RunRequest request;
  request.config = usable_anywhere(leg.config);
  request.trace.directory = (root / "trace").string();
  request.trace.capture = leg.capture;
  request.trace.digest = true;
  request.metrics_directory = (root / "metrics").string();
  request.resume = leg.resume;
  request.stop = stop;
  request.launch_deadline = leg_deadline;
  LegResult out;
  out.leg = leg;
  const Duration begun = Clock::real().now();
  try {
    write_run_line(request.config, directory + "/run.txt");
    make_folder(request.trace.directory);
    make_folder(request.metrics_directory);
    out.interrupted = !run(request);
  } catch (const Error& error) {
    out.error = error;
  }
  out.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  try {
    read_seconds(root / "metrics" / "metrics.rank_00000.jsonl", out);
    out.trace = read_trace(request.trace.directory);
  } catch (const Error& error) {
    // A leg that ended well must have left a trace.
    if (!out.error && !out.interrupted) out.error = error;
  }
  return out;
}

}  // namespace shardproof

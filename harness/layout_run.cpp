// layout_run: run, read, judge.
#include "harness/layout_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "harness/world.h"
#include "invariants/trace_checks.h"
#include "mesh/layout.h"
#include "trace/memory_trace.h"

namespace shardproof {
namespace {

constexpr auto run_deadline = std::chrono::minutes(5);  // a row takes seconds
constexpr int shortest_replay = 4;                      // steps that `replay` asks for

std::optional<double> most_bytes_sent(const Trace& trace) {
  std::optional<double> most;
  for (const RankTrace& rank : trace.ranks) {
    double sum = 0;
    for (const StepRecord& step : rank.steps) sum += step.extra.value("bytes_sent", 0.0);
    if (rank.steps.empty()) continue;
    most = std::max(most.value_or(0), sum / static_cast<double>(rank.steps.size()));
  }
  return most;
}

}  // namespace

Trace traced_in_memory(const Config& config, std::shared_ptr<const Dataset> dataset,
                       const std::atomic<bool>* stop) {
  RunRequest request;
  request.config = config;
  request.trace.digest = true;
  request.trace.memory = std::make_shared<MemoryTrace>();
  request.stop = stop;
  request.dataset = std::move(dataset);
  run_on_threads(request);
  return request.trace.memory->take();
}

std::optional<Trace> traced_run(const Config& config, const std::string& folder,
                                const std::atomic<bool>* stop) {
  if (folder.empty()) {
    Trace trace = traced_in_memory(config, nullptr, stop);
    if (stop != nullptr && stop->load()) return std::nullopt;
    return trace;
  }
  RunRequest request;
  request.config = config;
  request.trace.digest = true;
  request.stop = stop;
  request.launch_deadline = run_deadline;
  request.trace.directory = folder;
  if (!run(request)) return std::nullopt;
  return read_trace(folder);
}

Verdict judge_layout(const Trace& reference, const Trace& trace, std::int64_t steps) {
  const Verdict all[] = {check_layout(reference, trace), check_live(reference, steps),
                         check_live(trace, steps),       check_cover(trace),
                         check_replicas(trace),          check_data(trace),
                         check_optimizer_bytes(trace)};
  for (const Outcome worst : {Outcome::fail, Outcome::inconclusive}) {
    for (const Verdict& verdict : all) {
      if (verdict.outcome == worst) return verdict;
    }
  }
  return all[0];
}

std::string replay_line(Config config) {
  config.checkpoint = {};
  config.training.steps = std::max(config.training.steps, shortest_replay);
  return fmt::format("shardproof replay '{}'", run_line(config));
}

LayoutProver::LayoutProver(std::string folder, bool keep, const std::atomic<bool>* stop)
    : folder_(std::move(folder)), keep_(keep), stop_(stop) {}

const Trace* LayoutProver::reference(const Config& config) {
  Config alone = config;
  alone.run = {};
  alone.run.layout = "dp1";
  alone.parallel = {};
  const std::string key = run_line(alone);
  const auto found = references_.find(key);
  if (found != references_.end()) return &found->second;
  const std::string folder =
      keep_ ? fmt::format("{}/reference-{}", folder_, references_.size()) : "";
  auto trace = traced_run(alone, folder, stop_);
  return trace ? &references_.emplace(key, std::move(*trace)).first->second : nullptr;
}

LayoutProof LayoutProver::prove(const Config& config, const std::string& name) {
  const bool on_files = keep_ || config.run.backend == "mpi";
  const std::string folder = on_files ? folder_ + "/" + name : "";
  LayoutProof out;
  out.config = config;
  out.ranks = parse_layout(config.run.layout).world();
  try {
    const Trace* alone = reference(config);
    const Duration begun = Clock::real().now();
    const auto trace = alone != nullptr ? traced_run(config, folder, stop_) : std::nullopt;
    out.interrupted = !trace;
    out.verdict =
        trace ? judge_layout(*alone, *trace, config.training.steps) : check_layout({}, {});
    if (trace) out.bytes_sent = most_bytes_sent(*trace);
    out.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
  } catch (const Error& error) {
    out.verdict = check_layout({}, {});
    if (error.kind() != ErrorKind::environment) out.verdict.outcome = Outcome::fail;
    out.verdict.reason = fmt::format("the run ended early: {}", error.what());
  }
  out.verdict.subject =
      fmt::format("{} on {} against one rank", config.run.layout, config.run.backend);
  if (out.verdict.outcome == Outcome::fail) out.verdict.replay = replay_line(config);
  if (on_files && !keep_ && out.verdict.outcome == Outcome::pass) {
    std::filesystem::remove_all(folder);
  }
  return out;
}

}  // namespace shardproof

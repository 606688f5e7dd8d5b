// layout_run: run, read, judge.
#include "harness/layout_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "harness/check_calls.h"
#include "harness/lone_leg.h"
#include "harness/native_legs.h"
#include "harness/output_path.h"
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

bool is_native(const Config& config) {
  return config.numerics.reduction == "native";
}

// The first that fails, else the first that is undecided, else the first.
Verdict worst_of(const std::vector<Verdict>& all) {
  for (const Outcome worst : {Outcome::fail, Outcome::inconclusive}) {
    for (const Verdict& verdict : all) {
      if (verdict.outcome == worst) return verdict;
    }
  }
  return all.front();
}

}  // namespace

Trace traced_in_memory(RunRequest request) {
  request.trace = {};
  request.trace.digest = true;
  request.trace.memory = std::make_shared<MemoryTrace>();
  run_on_threads(request);
  return request.trace.memory->take();
}

Trace traced_in_memory(const Config& config, std::shared_ptr<const Dataset> dataset,
                       const std::atomic<bool>* stop) {
  RunRequest request;
  request.config = config;
  request.stop = stop;
  request.dataset = std::move(dataset);
  return traced_in_memory(std::move(request));
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
  return worst_of({check_layout(reference, trace), check_live(reference, steps),
                   check_live(trace, steps), check_cover(trace), check_replicas(trace),
                   check_data(trace), check_optimizer_bytes(trace), check_calls(trace)});
}

std::optional<Traces> native_runs(const Config& config, const std::string& folder,
                                  const std::atomic<bool>* stop) {
  const std::int64_t last = config.training.steps - 1;
  const Leg main{"main", config, {-1, 0, 1, last - 1, last}, std::nullopt};
  const Leg repeat{"repeat", config, {}, std::nullopt};
  std::vector<Leg> legs = lone_legs(main);
  legs.insert(legs.begin(), {main, repeat});
  make_fresh_folder(folder);
  Traces out;
  for (const Leg& leg : legs) {
    const std::string directory = folder + "/" + leg.name;
    LegResult done = leg.weights_of.empty() ? run_leg(leg, directory, stop)
                                            : run_lone_leg(leg, out.at(leg.weights_of), directory);
    if (done.interrupted) return std::nullopt;
    if (done.error) throw *done.error;
    out[leg.name] = std::move(done.trace);
  }
  return out;
}

Verdict judge_native(const Config& config, const Traces& traces) {
  const Trace& main = trace_of(traces, "main");
  return worst_of({judge_native_layout(config, traces),
                   check_repeat(main, trace_of(traces, "repeat")),
                   check_live(main, config.training.steps), check_cover(main), check_replicas(main),
                   check_data(main), check_optimizer_bytes(main), check_calls(main)});
}

std::string_view rule_of(const Config& config) {
  return is_native(config) ? native_layout_check : "bits of one rank";
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
  alone.guard = {};
  const std::string key = run_line(alone);
  const auto found = references_.find(key);
  if (found != references_.end()) return &found->second;
  const std::string folder =
      keep_ ? fmt::format("{}/reference-{}", folder_, references_.size()) : "";
  auto trace = traced_run(alone, folder, stop_);
  return trace ? &references_.emplace(key, std::move(*trace)).first->second : nullptr;
}

void LayoutProver::prove_canonical(const Config& config, const std::string& folder,
                                   LayoutProof& out) {
  out.verdict = check_layout({}, {});
  const Trace* alone = reference(config);
  const Duration begun = Clock::real().now();
  const auto trace = alone != nullptr ? traced_run(config, folder, stop_) : std::nullopt;
  out.interrupted = !trace;
  if (!trace) return;
  out.verdict = judge_layout(*alone, *trace, config.training.steps);
  out.bytes_sent = most_bytes_sent(*trace);
  out.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
}

void LayoutProver::prove_native(const Config& config, const std::string& folder, LayoutProof& out) {
  out.verdict = judge_native_layout(config, {});
  const Duration begun = Clock::real().now();
  const auto traces = native_runs(config, folder, stop_);
  out.interrupted = !traces;
  if (!traces) return;
  out.verdict = judge_native(config, *traces);
  out.bytes_sent = most_bytes_sent(trace_of(*traces, "main"));
  out.seconds = std::chrono::duration<double>(Clock::real().now() - begun).count();
}

LayoutProof LayoutProver::prove(const Config& config, const std::string& name) {
  const bool native = is_native(config);
  const bool on_files = keep_ || native || config.run.backend == "mpi";
  const std::string folder = on_files ? folder_ + "/" + name : "";
  LayoutProof out;
  out.config = config;
  out.ranks = parse_layout(config.run.layout).world();
  try {
    native ? prove_native(config, folder, out) : prove_canonical(config, folder, out);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::environment) out.verdict.outcome = Outcome::fail;
    out.verdict.reason = fmt::format("the run ended early: {}", error.what());
  }
  out.verdict.subject = fmt::format("{} on {} against one rank{}", config.run.layout,
                                    config.run.backend, native ? " in float64" : "");
  if (out.verdict.outcome == Outcome::fail) out.verdict.replay = replay_line(config);
  if (on_files && !keep_ && out.verdict.outcome == Outcome::pass) {
    std::filesystem::remove_all(folder);
  }
  return out;
}

}  // namespace shardproof

// ladder_recovery: one run that nothing befalls, and two that somebody dies in.
#include "harness/ladder_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "checkpoint/load.h"
#include "harness/fault_board.h"
#include "harness/supervisor.h"
#include "invariants/ruling.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

constexpr int recovery_steps = 6;  // saves after 2, 4 and 6
constexpr const char* sentence =
    "a rank dies in the middle of a run: restarted from the newest checkpoint, and in place with "
    "the ranks that are left, its end has the bits of the run without the death";

struct End {
  std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> steps;  // loss, norm: bits
  std::string state;   // digest behind the last step
  int recoveries = 0;  // of an elastic run: deaths
  std::string error;
};

Config recovery_case(const Config& of, const std::string& layout) {
  Config config = of;
  config.training.steps = std::min(config.training.steps, recovery_steps);
  config.checkpoint = {};
  config.checkpoint.directory = "memory";
  config.checkpoint.every = 2;
  config.run.layout = layout;
  config.run.backend = "threads";
  config.run.fault.clear();
  config.run.restart_seconds = 0;
  return config;
}

// An elastic run goes through its fault within one start, so that a board can say that it fired.
End run_to_its_end(const Config& config, const std::atomic<bool>* stop) {
  End end;
  RunRequest request;
  request.config = config;
  if (config.run.elastic) {
    request.faults = std::make_shared<FaultBoard>(parse_faults(config.run.fault, "run.fault"));
    request.config.run.fault.clear();
  }
  request.storage = memory_storage();
  request.stop = stop;
  request.on_step = [&](const StepResult& step, const StepMetrics&) {
    end.steps[step.step] = {std::bit_cast<std::uint64_t>(step.loss),
                            std::bit_cast<std::uint64_t>(step.grad_norm)};
  };
  Supervision quiet;
  quiet.say = [](const std::string&) {};
  quiet.recovered = [&](const Recovery&) { ++end.recoveries; };
  try {
    supervise(request, quiet);
    const auto ids = list_checkpoints(*request.storage);
    if (!ids.empty()) {
      end.state = read_manifest(*request.storage, ids.back()).state_digest().hex();
    }
  } catch (const Error& error) {
    end.error = error.what();
  }
  if (request.faults) end.recoveries = static_cast<int>(request.faults->fired().size());
  return end;
}

std::string problem(const End& whole, const End& found) {
  if (!found.error.empty()) return found.error;
  if (found.steps.size() != whole.steps.size()) {
    return fmt::format("{} steps were done, not {}", found.steps.size(), whole.steps.size());
  }
  for (const auto& [step, bits] : whole.steps) {
    const auto same = found.steps.find(step);
    if (same != found.steps.end() && same->second == bits) continue;
    return fmt::format(
        "step {} has another loss or gradient norm than in the run without the death", step);
  }
  return found.state == whole.state ? "" : "the state behind the last step is another one";
}

}  // namespace

Verdict judge_recoveries(const Config& of, const std::string& layout, const std::atomic<bool>* stop,
                         const std::string& fault) {
  Verdict verdict = open_verdict("recovery", sentence);
  Config config = recovery_case(of, layout);
  const End whole = run_to_its_end(config, stop);
  if (!whole.error.empty()) return fails(verdict, "without a death: " + whole.error);
  const int last = parse_layout(layout).world() - 1;
  config.run.fault = fault.empty()
                         ? fmt::format("step:{}:{}:backward!kill", last, config.training.steps / 2)
                         : fault;
  for (const bool elastic : {false, true}) {
    config.run.restarts = elastic ? 0 : 1;
    config.run.elastic = elastic;
    const char* const way = elastic ? "elastic" : "restart";
    const End found = run_to_its_end(config, stop);
    if (stop != nullptr && stop->load()) return undecided(verdict, "stopped");
    const std::string why = problem(whole, found);
    if (!why.empty()) return fails(verdict, fmt::format("{}: {}", way, why));
    if (found.recoveries != 1) {
      return fails(verdict,
                   fmt::format("{}: {} deaths were outlived, not 1", way, found.recoveries));
    }
  }
  verdict.notes.push_back(
      fmt::format("rank {} dies ({}): restarted and in place, {} steps and the "
                  "state at the end have the bits of the run without it",
                  last, config.run.fault, whole.steps.size()));
  return passes(verdict);
}

}  // namespace shardproof

// fault_run: runs, recoveries and the comparison at the end.
#include "harness/fault_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <fstream>
#include <regex>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "faults/inject/impossible_fault.h"
#include "harness/newest_whole.h"
#include "harness/stored_fault.h"
#include "harness/supervisor.h"
#include "mesh/layout.h"
#include "train/manifest_facts.h"
#include "train/sections.h"

namespace shardproof {
namespace {

bool is_of_the_start(const Fault& fault) {
  return changes_start(fault.kind) && !changes_manifest(fault.kind);
}

std::vector<Fault> of_run(const std::vector<Fault>& faults, int run) {
  std::vector<Fault> out;
  for (const Fault& fault : faults) {
    if (fault.run == run) out.push_back(fault);
  }
  return out;
}

int last_run_with_faults(const std::vector<Fault>& faults) {
  int last = 0;
  for (const Fault& fault : faults) last = std::max(last, fault.run);
  return last;
}

// The first damage of any checkpoint, as `checkpoint verify` says it.
std::string damage_of(Storage& storage) {
  for (const std::string& id : list_checkpoints(storage)) {
    for (const Damage& damage : damages_of(storage, id)) return text(id, damage);
  }
  return "";
}

// "rank 1", and 1 in "ranks 0, 1": not in "rank 10".
bool names_rank(const FaultRunEnd& run, int rank) {
  if (run.named_rank == rank) return true;
  const std::regex list("ranks? ([0-9]+(?:, ?[0-9]+)*)"), number("[0-9]+");
  using Matches = std::sregex_iterator;
  for (Matches one(run.said.begin(), run.said.end(), list); one != Matches(); ++one) {
    const std::string ranks = (*one)[1];
    for (Matches each(ranks.begin(), ranks.end(), number); each != Matches(); ++each) {
      if (each->str() == std::to_string(rank)) return true;
    }
  }
  return false;
}

// To survive, each of the faults must allow it, a death in an elastic run does; anything else may
// be due to any of them.
bool is_right(const std::vector<Fault>& faults, FaultOutcome outcome, bool elastic) {
  const auto allows = [&](const Fault& fault) {
    const bool death = fault.kind == FaultKind::kill || fault.kind == FaultKind::exit;
    const bool outlived = elastic && death && outcome == FaultOutcome::survived_equal;
    return outlived || is_allowed(fault.kind, outcome);
  };
  return outcome == FaultOutcome::survived_equal
             ? std::all_of(faults.begin(), faults.end(), allows)
             : std::any_of(faults.begin(), faults.end(), allows);
}

template <typename Fail>
void require_name(const Fault& fault, const FaultRunEnd& run, const Fail& fail) {
  const Allowed& row = allowed_outcomes()[static_cast<std::size_t>(fault.kind)];
  const bool spoken = run.outcome == FaultOutcome::detected ||
                      (run.outcome == FaultOutcome::refused && is_of_the_start(fault));
  if (row.names_rank && spoken && !names_rank(run, fault.point.rank)) {
    fail(fmt::format("{}: rank {} is not named: {}", fault.text(), fault.point.rank, run.said));
  }
}

std::string not_fired(const std::vector<Fault>& faults, const std::vector<Fault>& fired) {
  for (const Fault& fault : faults) {
    if (changes_manifest(fault.kind)) continue;  // stored before the run began
    if (std::find(fired.begin(), fired.end(), fault) == fired.end()) return fault.text();
  }
  return "";
}

}  // namespace

struct FaultRunner::Attempt {
  Config config;
  std::shared_ptr<Storage> storage;
  std::string from;
  std::vector<Fault> faults;
  int run = 0;
};

std::shared_ptr<const Dataset> FaultRunner::dataset(const Config& config) {
  auto& found = datasets_[case_line(config)];
  if (!found) {
    found = open_dataset(dataset_of(config), config.model.sequence, config.model.vocabulary,
                         static_cast<std::uint64_t>(config.training.seed));
  }
  return found;
}

void FaultRunner::run_threads(const Attempt& attempt, RunRequest request, FaultRunEnd& end) {
  request.config.run.backend = "threads";
  request.storage = attempt.storage;
  request.dataset = dataset(attempt.config);
  request.faults = std::make_shared<FaultBoard>(attempt.faults);
  try {
    run_on_threads(request);
  } catch (...) {
    end.fired = request.faults->fired();
    throw;
  }
  end.fired = request.faults->fired();
}

// What fired lies beside the trace, written before it had any effect.
void FaultRunner::run_processes(const Attempt& attempt, RunRequest request, FaultRunEnd& end) {
  const TempFolder trace;
  request.trace.directory = trace.path() + "/trace";
  request.program = program_;
  std::vector<Fault> faults = attempt.faults;
  for (Fault& fault : faults) fault.run = 0;  // of this run
  request.config.run.fault = faults.empty() ? "" : text(faults);
  const auto read_fired = [&] {
    const int world = parse_layout(request.config.run.layout).world();
    for (int rank = 0; rank < world; ++rank) {
      const std::string path =
          fmt::format("{}/faults.rank_{:05}.jsonl", request.trace.directory, rank);
      std::ifstream lines(path);
      for (std::string line; std::getline(lines, line);) {
        Fault fired = parse_faults(string_member(parse_json(line, path), "fault", path), path)[0];
        fired.run = attempt.run;
        end.fired.push_back(fired);
      }
    }
  };
  try {
    run_on_mpi(request);
  } catch (...) {
    read_fired();
    throw;
  }
  read_fired();
}

FaultRunEnd FaultRunner::run_once(const Attempt& attempt, Steps& steps) {
  FaultRunEnd end;
  end.from = attempt.from;
  RunRequest request;
  request.config = attempt.config;
  if (!attempt.from.empty()) {
    request.resume = attempt.from;
    request.fallback = true;
  }
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    steps.bits[result.step] = {std::bit_cast<std::uint64_t>(result.loss),
                               std::bit_cast<std::uint64_t>(result.grad_norm)};
  };
  const Duration start = Clock::real().now();
  try {
    // What has no fault of its own has the same bits on threads, and starts faster.
    if (attempt.config.run.backend == "mpi" && !attempt.faults.empty()) {
      run_processes(attempt, std::move(request), end);
    } else {
      run_threads(attempt, std::move(request), end);
    }
    end.complete = true;
  } catch (const Error& error) {
    end.error_kind = std::string(name(error.kind()));
    end.said = error.what();
    end.named_rank = error.world_rank();
  } catch (const std::exception& error) {
    end.error_kind = "exception";
    end.said = error.what();
  }
  end.seconds = std::chrono::duration<double>(Clock::real().now() - start).count();
  return end;
}

const FaultRunner::Steps& FaultRunner::reference(const Config& of) {
  Config config = of;
  config.run.backend = "threads";
  config.checkpoint.directory = "memory";
  const std::string key = run_line(config);
  const auto found = references_.find(key);
  if (found != references_.end()) return found->second;
  Steps steps;
  const std::shared_ptr<Storage> storage = memory_storage();
  const FaultRunEnd end = run_once({config, storage, "", {}, 0}, steps);
  if (!end.complete) throw Error(ErrorKind::bad_input, "the Run without its fault", end.said);
  steps.state = read_manifest(*storage, list_checkpoints(*storage).back()).state_digest().hex();
  return references_.emplace(key, std::move(steps)).first->second;
}

std::vector<PassedPoint> FaultRunner::discover(const Config& config) {
  RunRequest request;
  request.config = config;
  request.config.checkpoint.directory = "memory";
  request.storage = memory_storage();
  request.dataset = dataset(config);
  request.faults = std::make_shared<FaultBoard>(std::vector<Fault>{}, true);
  run_on_threads(request);
  std::vector<PassedPoint> points = request.faults->passed();
  std::stable_sort(points.begin(), points.end(), [](const PassedPoint& a, const PassedPoint& b) {
    return a.point.rank < b.point.rank;
  });
  return points;
}

FaultResult FaultRunner::run(const FaultScenario& scenario) {
  FaultResult result;
  const Duration start = Clock::real().now();
  Config config = scenario.config;
  const bool processes = config.run.backend == "mpi";
  const TempFolder folder;
  config.checkpoint.directory = processes ? folder.path() + "/checkpoints" : "memory";
  check(config);
  refuse_restarts(config, "a fault scenario, which recovers in its own way,");
  reference(config);
  const std::shared_ptr<Storage> storage =
      processes ? posix_storage(config.checkpoint.directory, true) : memory_storage();
  Steps steps;
  const int last = last_run_with_faults(scenario.faults);
  constexpr int recoveries = 2;  // one that recovers, and one from what it found damaged
  for (int run = 0; run <= last + recoveries; ++run) {
    Attempt attempt{config, storage, "", of_run(scenario.faults, run), run};
    if (run > 0) {
      if (!scenario.recover_layout.empty()) attempt.config.run.layout = scenario.recover_layout;
      attempt.from = newest_whole(*storage, nullptr);
    }
    for (const Fault& fault : attempt.faults) {
      if (changes_manifest(fault.kind)) change_manifest(*storage, attempt.from, fault.kind);
    }
    FaultRunEnd end = run_once(attempt, steps);
    const std::string missed = scenario.drawn ? "" : not_fired(attempt.faults, end.fired);
    const std::string damage =
        std::any_of(end.fired.begin(), end.fired.end(),
                    [](const Fault& fault) { return damages_shard(fault.kind); })
            ? damage_of(*storage)
            : "";
    if (!missed.empty()) {
      end.outcome = FaultOutcome::not_fired;
      end.said = fmt::format("{} did not fire; {}", missed, end.said);
    } else if (!scenario.drawn && is_impossible_fault(end.said)) {
      end.outcome = FaultOutcome::not_fired;  // the script asks for what cannot happen there
    } else if (end.seconds > hang_seconds_) {
      end.outcome = FaultOutcome::hung;
    } else if (!damage.empty()) {
      end.outcome = FaultOutcome::refused;
      end.said = damage;
    } else if (!end.complete) {
      const bool refused = std::any_of(end.fired.begin(), end.fired.end(), [](const Fault& fault) {
        return changes_start(fault.kind);
      });
      end.outcome = refused ? FaultOutcome::refused : FaultOutcome::detected;
    }
    result.runs.push_back(std::move(end));
    // A manifest that says something else is whole: nothing but the refusal tells it.
    for (const Fault& fault : attempt.faults) {
      if (changes_manifest(fault.kind)) storage->remove(manifest_path(attempt.from));
    }
    const bool complete = result.runs.back().complete && damage.empty();
    if (!complete) continue;
    if (run >= last) break;
    // The run that recovers has something to do: the last checkpoint goes.
    storage->remove(manifest_path(list_checkpoints(*storage).back()));
  }
  const auto ids = list_checkpoints(*storage);
  if (!ids.empty()) steps.state = read_manifest(*storage, ids.back()).state_digest().hex();
  judge(scenario, steps, result);
  result.seconds = std::chrono::duration<double>(Clock::real().now() - start).count();
  return result;
}

// The outcome of a scenario is that of its last run with a fault; every run must be right.
void FaultRunner::judge(const FaultScenario& scenario, const Steps& steps, FaultResult& result) {
  const Steps& expected = reference(scenario.config);
  const auto fail = [&](const std::string& why) {
    if (result.why.empty()) result.why = why;
  };
  const auto last = static_cast<std::size_t>(last_run_with_faults(scenario.faults));
  const bool equal = result.runs.back().complete && steps == expected;
  for (std::size_t i = 0; i < result.runs.size(); ++i) {
    FaultRunEnd& run = result.runs[i];
    if (run.outcome == FaultOutcome::survived_equal && !equal) {
      run.outcome = FaultOutcome::silent;
      fail(run.complete ? "the trajectory differs from that of the Run without faults"
                        : "a run without a fault failed: " + run.said);
    }
    const auto faults = scenario.drawn ? run.fired : of_run(scenario.faults, static_cast<int>(i));
    if (!faults.empty() && !is_right(faults, run.outcome, scenario.config.run.elastic)) {
      fail(fmt::format("{} ended as {}: {}", text(faults), name(run.outcome), run.said));
    }
    if (faults.size() == 1) require_name(faults.front(), run, fail);
  }
  if (!equal) fail("what recovered does not have the bits of the Run without faults");
  result.outcome = result.runs.at(std::min(last, result.runs.size() - 1)).outcome;
  if (!equal && result.outcome != FaultOutcome::hung && result.outcome != FaultOutcome::not_fired) {
    result.outcome = FaultOutcome::silent;
  }
  if (!scenario.expect.empty() && scenario.expect != name(result.outcome)) {
    fail(fmt::format("expected {}, found {}", scenario.expect, name(result.outcome)));
  }
  result.pass = result.why.empty();
}

std::string fault_replay_line(const FaultScenario& scenario) {
  Config config = scenario.config;
  config.checkpoint.directory.clear();
  config.run.fault = text(scenario.faults);
  return fmt::format("shardproof replay '{}'", run_line(config));
}

}  // namespace shardproof

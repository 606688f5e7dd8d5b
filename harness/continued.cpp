// continued: see continued.h.
#include "harness/continued.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "checkpoint/load.h"
#include "harness/drill.h"
#include "harness/layout_run.h"
#include "invariants/trace_checks.h"
#include "train/config.h"
#include "train/manifest_facts.h"

namespace shardproof {
namespace {

// The trace as it was after that step.
Trace until(Trace trace, std::int64_t last) {
  for (RankTrace& rank : trace.ranks) {
    std::erase_if(rank.steps, [&](const StepRecord& step) { return step.step > last; });
    std::erase_if(rank.tensors, [&](const TensorRecord& tensor) { return tensor.step > last; });
  }
  std::erase_if(trace.files, [&](const TensorFileRef& file) { return file.step > last; });
  return trace;
}

Config config_of(const Manifest& manifest, const Continuation& what) {
  Config config =
      parse_config_json(manifest.facts.config.dump(), "config of checkpoint " + manifest.id);
  if (config.numerics.reduction == "native" && config.run.backend == "mpi") {
    throw Error(ErrorKind::refused, "checkpoint " + manifest.id,
                "native reduction on MPI processes has bits of its own; expected a run on threads, "
                "or canonical reduction");
  }
  config.checkpoint = {};
  config.checkpoint.directory = what.directory;
  config.checkpoint.last = false;
  config.run.backend = "threads";
  config.run.fault.clear();
  config.training.steps = static_cast<int>(manifest.facts.step) + what.steps;
  if (!what.layout.empty()) config = on_layout(config, what.layout);
  check(config);
  return config;
}

}  // namespace

Config on_layout(Config config, const std::string& layout) {
  if (layout == config.run.layout) return config;
  config.run.layout = layout;
  config.parallel = {};
  config.training.accumulation = 0;  // follows from the layout
  return config;
}

DrillResult continue_for_drill(const Continuation& what) {
  const auto storage = posix_storage(what.directory, false);
  const std::string place = what.directory + ": checkpoint " + what.id;
  const std::vector<Damage> damages = verify_checkpoint(*storage, what.id);
  if (!damages.empty()) {
    throw Error(ErrorKind::corrupt, place + ": " + damages[0].where,
                fmt::format("expected {}, found {}", damages[0].expected, damages[0].found));
  }
  const Manifest manifest = read_manifest(*storage, what.id);
  require_consistent(contradictions(manifest), place);
  DrillResult result;
  RunRequest request;
  request.config = config_of(manifest, what);
  request.resume = what.id;
  request.on_step = [&](const StepResult& step, const StepMetrics&) {
    result.steps.push_back(step);
  };
  request.on_state = [&](const Digest& state) { result.state = state; };
  run_on_threads(request);
  return result;
}

Verdict continue_checkpoint(const Continuation& what) {
  if (what.steps < 2) {
    throw Error(ErrorKind::bad_input, "--continue",
                fmt::format("found {}; expected at least 2: lost moments show in the second step",
                            what.steps));
  }
  const auto storage = posix_storage(what.directory, false);
  const Manifest manifest = read_manifest(*storage, what.id);
  const Trace uncut = read_trace(what.trace);
  const std::int64_t from = manifest.facts.step, last = from + what.steps - 1;
  const std::vector<std::int64_t> traced = uncut.step_numbers();
  if (traced.empty() || traced.back() < last) {
    throw Error(
        ErrorKind::bad_input, what.trace,
        fmt::format("ends before step {}; expected the trace of a run that went that far", last));
  }
  RunRequest request;
  request.config = config_of(manifest, what);
  request.resume = what.id;
  const Trace continued = traced_in_memory(std::move(request));
  return check_resume(until(uncut, last), until(continued, last), from);
}

}  // namespace shardproof

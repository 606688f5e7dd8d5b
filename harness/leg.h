// leg: one run of several that are compared. A leg that fails is a result, not an exception: its
// verdicts say so. Everything a leg leaves lies in its folder: run.txt (the run line), trace/,
// checkpoints/ where it saves, metrics.
// Thread rule: one leg at a time.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/error.h"
#include "trace/reader.h"
#include "train/config.h"
#include "train/metrics.h"

namespace shardproof {

struct Leg {
  std::string name;  // "main", "dp1", "repeat", "float64", ...
  Config config;
  std::set<std::int64_t> capture;     // steps whose tensors are written; digests always are
  std::optional<std::string> resume;  // checkpoint id in config.checkpoint.directory
  // Not empty: no run, but gradients on one rank from the weights which that leg captured before
  // each step of `capture` (lone_leg.h), in float64 or float32.
  std::string weights_of{};
  bool float64 = false;
};

struct LegResult {
  Leg leg;
  Trace trace;                 // empty when the leg wrote none
  std::optional<Error> error;  // how the leg ended, when not well
  bool interrupted = false;    // by Ctrl-C
  double seconds = 0;
  std::array<double, part_count> parts{};  // seconds of rank 0 by part, over all steps
  double offload_seconds = 0;              // within those: transfers of what is offloaded
};

using Traces = std::map<std::string, Trace>;  // by leg
// An empty trace when there is no such leg.
const Trace& trace_of(const Traces& traces, const std::string& leg);

// Runs the leg in `directory` (created; must not exist). `stop`, when set, ends it after a step.
LegResult run_leg(const Leg& leg, const std::string& directory, const std::atomic<bool>* stop);

}  // namespace shardproof

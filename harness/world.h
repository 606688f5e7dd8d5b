// world: the only composition root: Case + layout + backend -> communicators, storage, ranks, plan,
// trainer. Everything below is handed its parts.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "trace/reader.h"
#include "trace/writer.h"
#include "train/config.h"
#include "train/trainer.h"

namespace shardproof {

struct RunRequest {
  Config config;
  TraceOptions trace;                     // directory empty: no trace
  std::string metrics_directory;          // empty: none
  std::optional<std::string> resume;      // checkpoint id; "" is the newest
  std::function<void(const StepResult&, const StepMetrics&)> on_step;  // rank 0, its thread
  const std::atomic<bool>* stop = nullptr;  // set: ends after the current step
};

// Runs on thread ranks in this process. The trace (when asked for) is complete when this returns.
void run_on_threads(const RunRequest& request);
// Starts this program again as MPI ranks (the hidden verb `rank`) through the launcher.
void run_on_mpi(const RunRequest& request);
void run(const RunRequest& request);      // by config.run.backend

// The body of one MPI rank process; returns its exit code. `arguments`: the JSON file of a request.
int rank_main(const std::string& request_file);

}  // namespace shardproof

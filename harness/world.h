// world: the only composition root: Case + layout + backend -> communicators, storage, ranks, plan,
// trainer. Everything below is handed its parts.
// Guarantee: when a run function returns or throws, its ranks have ended and its trace is complete.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/error.h"
#include "checkpoint/storage.h"
#include "comm/stack.h"
#include "data/dataset.h"
#include "harness/launcher.h"
#include "trace/reader.h"
#include "trace/writer.h"
#include "train/config.h"
#include "train/trainer.h"

namespace shardproof {

class FaultBoard;

struct RunRequest {
  Config config;
  TraceOptions trace;                 // directory empty: no trace
  std::string metrics_file;           // JSON lines of rank 0; empty: none
  std::string metrics_directory;      // metrics.rank_00000.jsonl of every rank; empty: none
  std::optional<std::string> resume;  // checkpoint id; "" is the newest
  bool fallback = false;              // damaged checkpoints behind it are set aside
  // Not empty: `resume` lies in this folder and begins a new Case; nothing in the folder changes.
  std::string new_case_from;
  std::function<void(const StepResult&, const StepMetrics&)> on_step;  // rank 0, after each step

  std::function<void(const Digest&)> on_state;  // rank 0: of the state behind the last step

  // Rank 0, before the first step: how long a part of the start took: "data" (opened), "load" (of
  // the checkpoint).
  std::function<void(const std::string& part, double seconds)> on_part;

  // MPI ranks only.
  Duration launch_deadline = std::chrono::hours(24 * 30);  // of the whole run
  std::string program;   // the command `shardproof`, for drills too; empty: this executable is it
  std::string hostfile;  // of mpirun; empty: this machine, oversubscribed
  std::function<void(const Failure&)> on_failure;  // the first, as soon as it is known

  // Thread ranks only.
  const std::atomic<bool>* stop = nullptr;  // set: ends after the current step
  std::shared_ptr<Storage> storage;         // of checkpoints; null: checkpoint.directory
  std::optional<CommunicationDelay> delay;
  std::function<std::unique_ptr<Hooks>(int rank)> hooks;
  std::shared_ptr<const Dataset> dataset;  // null: as the config says
  std::shared_ptr<FaultBoard> faults;      // null: those of run.fault
};

// Runs on thread ranks in this process.
void run_on_threads(const RunRequest& request);
// Starts this program again as MPI ranks (the hidden verb `rank`) through the launcher. A dead rank
// is Error peer_died; a rank's own Error is thrown here; interrupted by Ctrl-C: returns false.
bool run_on_mpi(const RunRequest& request);
// The same, with the launcher's account instead of an Error.
LaunchResult launch_run(const RunRequest& request);
// What run_on_mpi throws. Precondition: neither ok nor interrupted.
Error failure_of(const LaunchResult& result);
// By config.run.backend. False: ended early because it was asked to stop.
bool run(const RunRequest& request);

// This process is one MPI rank, started by the user's own mpirun or srun: rank 0 hosts the control
// socket and names a rank that dies (see hosted_control.h); an Error is this rank's own.
void run_as_mpi_rank(const RunRequest& request);

// The body of a rank that the launcher started; returns its exit code. The file holds the request;
// address and token are those of the control socket, `rank` what MPI's starter gave this process.
int rank_main(const std::string& request_file, const std::string& control_address,
              const std::string& control_token, int rank);

}  // namespace shardproof

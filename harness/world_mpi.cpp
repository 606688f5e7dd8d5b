// world_mpi: runs on MPI processes: the launcher's side and the body of a rank process.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "comm/mpi_communicator.h"
#include "harness/child.h"
#include "harness/control.h"
#include "harness/control_watchdog.h"
#include "harness/elastic_run.h"
#include "harness/hosted_control.h"
#include "harness/output_path.h"
#include "harness/prepare.h"
#include "harness/rank_faults.h"
#include "harness/rank_guards.h"
#include "harness/rank_run.h"
#include "harness/request_file.h"
#include "harness/run_folder.h"
#include "harness/say.h"
#include "harness/world.h"
#include "mesh/layout.h"

namespace shardproof {
namespace {

// Where Open MPI keeps what ranks of one machine share; ranks that are killed leave it behind.
std::string shared_memory_folder() {
  const char* const folder = "/dev/shm";
  return ::access(folder, W_OK) == 0 ? folder : "";
}

// The request where rank processes find it; its path.
std::string write_request(const RunRequest& request, const RunFolder& folder) {
  const std::string path = folder.file("request.json");
  std::ofstream file(path);
  file << request_to_json(request).dump() << std::flush;
  if (!file) throw Error(ErrorKind::io, "write " + path, "the request of a run");
  return path;
}

// Tells the host of the control socket where this rank is, so that a death can be named by its
// place.
class ControlHooks : public Hooks {
 public:
  explicit ControlHooks(ControlClient& control) : control_(control) {}
  void entering(std::int64_t step, Phase phase) override {
    control_.at(step, std::string(name(phase)));
  }

 private:
  ControlClient& control_;
};

// The world of all ranks, which must be as many as the layout and its spares.
std::unique_ptr<Communicator> communicator_of(MpiWorld& world, const Config& config) {
  auto comm = world.communicator();
  const std::string spares =
      config.run.spares == 0 ? "" : fmt::format(" with run.spares={}", config.run.spares);
  if (comm->size() != rank_count(config)) {
    throw Error(ErrorKind::bad_input, "run.layout",
                fmt::format("{}{} needs {} ranks; MPI started {}", config.run.layout, spares,
                            rank_count(config), comm->size()));
  }
  if (config.run.elastic && !MpiWorld::has_ulfm()) {
    throw Error(ErrorKind::environment, MpiWorld::library_version(),
                "run.elastic needs an MPI with ULFM (Open MPI 5); expected run.elastic=false, or "
                "run.restarts, which starts the ranks again");
  }
  return comm;
}

void train(const RunRequest& request, const std::shared_ptr<const Dataset>& dataset,
           std::unique_ptr<Communicator> comm, Hooks& hooks, RankFaults* faults,
           Watchdog& watchdog) {
  const auto data = [&] {
    if (request.dataset) return request.dataset;
    return dataset ? dataset : prepare(request);
  };
  if (request.config.run.elastic) {
    run_elastic_rank({request, std::move(comm), data, hooks, faults, &watchdog});
  } else {
    run_rank(request, data(), std::move(comm), hooks, faults, &watchdog);
  }
}

void run_with_faults(const RunRequest& request, const std::shared_ptr<const Dataset>& dataset,
                     std::unique_ptr<Communicator> comm, Hooks& hooks, Watchdog& watchdog) {
  const auto faults = rank_faults(request, comm->rank(), process_powers());
  if (!faults) return train(request, dataset, std::move(comm), hooks, nullptr, watchdog);
  const RunRequest mine = faults->started(request);  // what befalls the start, hooks know of
  train(mine, dataset, std::move(comm), *faults->hooks(hooks), faults.get(), watchdog);
}

// Open MPI tells the others of deaths by a signal alone: in an elastic run a rank whose process
// leaves by exit() in the middle of it (what it links may do so) dies of one. _exit() stays unseen.
class DiesOfASignal {
 public:
  explicit DiesOfASignal(bool elastic) {
    [[maybe_unused]] static const int registered = std::atexit([] {
      if (in_the_middle) ::raise(SIGKILL);
    });
    in_the_middle = elastic;
  }
  ~DiesOfASignal() { in_the_middle = false; }
  DiesOfASignal(const DiesOfASignal&) = delete;

 private:
  static inline std::atomic<bool> in_the_middle = false;
};

// A spare (see elastic_run.h) opens its data when it is called.
std::shared_ptr<const Dataset> prepare_rank(const RunRequest& request, int rank) {
  if (rank >= parse_layout(request.config.run.layout).world()) return nullptr;
  return prepare(request);
}

// Errors that follow from the failure of another rank.
bool is_consequence(const Error& error) {
  return error.kind() == ErrorKind::peer_died || error.kind() == ErrorKind::revoked ||
         error.kind() == ErrorKind::timeout;
}

// Errors that no other rank's failure leads to: where one was reported, a rank that died was ended
// by MPI because of it.
bool is_cause(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::bad_input:
    case ErrorKind::io:
    case ErrorKind::corrupt:
    case ErrorKind::refused:
    case ErrorKind::conflict:
    case ErrorKind::numeric:
      return true;
    default:
      return false;
  }
}

}  // namespace

Error failure_of(const LaunchResult& result) {
  for (const RankEnd& rank : result.ranks) {
    if (rank.error.empty()) continue;
    Error error = error_from_text(rank.error);
    if (is_cause(error)) return error;
  }
  for (const RankEnd& rank : result.ranks) {
    if (!result.outlives_deaths || rank.error.empty()) continue;
    Error error = error_from_text(rank.error);  // why those that were left could not go on
    if (error.kind() != ErrorKind::revoked) return error;
  }
  if (result.first_death) {
    const Death& death = *result.first_death;
    if (!death.stopped && !result.hang.empty()) return error_from_text(result.hang);
    return Error(ErrorKind::peer_died, death.place.empty() ? "before the first step" : death.place,
                 death.stopped
                     ? fmt::format("rank {} stopped answering: its process was found stopped "
                                   "(SIGSTOP); given up {:.2f} s after its last sign of life",
                                   death.rank, death.silent_seconds)
                     : fmt::format("rank {} died; noticed {:.2f} s after its last sign of life",
                                   death.rank, death.silent_seconds),
                 death.rank);
  }
  std::optional<Error> consequence;
  for (const RankEnd& rank : result.ranks) {
    if (rank.error.empty()) continue;
    Error error = error_from_text(rank.error);
    if (!is_consequence(error)) return error;
    const bool says_more = consequence && consequence->kind() == ErrorKind::revoked &&
                           error.kind() != ErrorKind::revoked;
    if (!consequence || says_more) consequence = std::move(error);
  }
  if (!result.hang.empty()) return error_from_text(result.hang);
  if (consequence) return *consequence;
  if (result.timed_out) return Error(ErrorKind::timeout, "MPI run", "not done before its deadline");
  for (std::size_t r = 0; r < result.ranks.size(); ++r) {
    if (result.ranks[r].exit_code == 0) continue;
    return Error(ErrorKind::environment, fmt::format("rank {}", r),
                 "ended without saying why; expected exit code 0", static_cast<int>(r));
  }
  return Error(ErrorKind::environment, "MPI run", "failed without a rank that says why");
}

LaunchResult launch_run(const RunRequest& request) {
  check(request.config);
  check_world_size(request.config);
  check_memory(request.config, true);
  if (request.hooks || request.storage || request.delay || request.dataset || request.faults) {
    throw Error(ErrorKind::bad_input, "MPI run",
                "hooks, storage, delay, dataset and a board of faults are for thread ranks");
  }
  if (!request.trace.directory.empty()) make_folder(request.trace.directory);
  // Ranks on other machines read the request, too: from where this command runs.
  const bool local = request.hostfile.empty();
  const RunFolder folder(local ? shared_memory_folder() : std::filesystem::current_path().string());
  LaunchRequest launch_request;
  launch_request.ranks = rank_count(request.config);
  launch_request.outlives_deaths = request.config.run.elastic;
  launch_request.patience = wait_limit(request.config) + launch_request.grace;
  launch_request.command = {request.program.empty() ? own_executable() : request.program, "rank",
                            write_request(request, folder)};
  launch_request.hostfile = request.hostfile;
  if (local) {
    launch_request.environment["OMPI_MCA_btl_sm_backing_directory"] = folder.path();
    // mpirun names its session by its process id alone: beside the session of a killed one that had
    // the same id it cannot start.
    launch_request.environment["PRTE_MCA_prte_tmpdir_base"] = folder.path();
  }
  launch_request.deadline = request.launch_deadline;
  launch_request.trace_directory = request.trace.directory;
  launch_request.on_failure = request.on_failure;
  launch_request.on_output = [&request](int rank, const std::string& line) {
    if (rank >= 0 && request.on_step) {
      if (const auto step = parse_step_line(line)) {
        request.on_step(step->first, step->second);
        return;
      }
    }
    if (rank == 0 && request.on_part) {
      if (const auto part = parse_part_line(line)) {
        request.on_part(part->first, part->second);
        return;
      }
    }
    const std::string from = rank < 0 ? "mpirun" : std::to_string(rank);
    const std::string text = fmt::format("[{}] {}\n", from, line);
    if (rank < 0) {
      std::fputs(text.c_str(), stderr);
    } else {
      say(text);
    }
  };
  return launch(launch_request);
}

bool run_on_mpi(const RunRequest& request) {
  const LaunchResult result = launch_run(request);
  if (result.interrupted) return false;
  if (!result.ok()) throw failure_of(result);
  return true;
}

void run_as_mpi_rank(const RunRequest& request) {
  const auto dataset = prepare(request);
  MpiWorld world(wait_limit(request.config));
  auto comm = communicator_of(world, request.config);
  HostedControl control(*comm, request.trace.directory);
  ControlHooks hooks(control.client());
  ControlWatchdog watch(watch_limits(request.config), control.client(), print_note);
  try {
    run_with_faults(request, dataset, std::move(comm), hooks, watch.watchdog());
  } catch (const Error& error) {
    control.client().done(exit_code(error.kind()));
    throw;
  }
  control.client().done(0);
}

int rank_main(const std::string& request_file, const std::string& control_address,
              const std::string& control_token, int rank) {
  ControlClient control(control_address, control_token, rank);
  std::optional<ControlWatchdog> watch;  // until the host knows how this rank ended
  int code = 0;
  try {
    std::ostringstream text;
    text << std::ifstream(request_file).rdbuf();
    RunRequest request = request_from_json(parse_json(text.str(), request_file), request_file);
    if (rank != 0) request.on_part = nullptr;
    ControlHooks hooks(control);
    const auto dataset = prepare_rank(request, rank);
    MpiWorld world(wait_limit(request.config));
    watch.emplace(watch_limits(request.config), control, print_note);
    const DiesOfASignal dies(request.config.run.elastic);
    run_with_faults(request, dataset, communicator_of(world, request.config), hooks,
                    watch->watchdog());
  } catch (const Error& error) {
    control.error(error_to_text(error));
    if (control_address.empty()) std::fprintf(stderr, "shardproof: %s\n", error.what());
    code = exit_code(error.kind());
  } catch (const std::exception& error) {
    const Error own(ErrorKind::environment, fmt::format("rank {}", rank), error.what(), rank);
    control.error(error_to_text(own));
    code = exit_code(own.kind());
  }
  control.done(code);
  return code;
}

}  // namespace shardproof

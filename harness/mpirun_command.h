// mpirun_command: what a LaunchRequest means as a command line and environment of Open MPI's
// mpirun. Thread rule: pure, apart from looking for files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/launcher.h"

namespace shardproof {

using Environment = std::map<std::string, std::string>;

// Error bad_input unless it is a readable file that names a host.
void check_hostfile(const std::string& file);
// The request with its mpirun filled in; Error as launch() says.
LaunchRequest checked_request(const LaunchRequest& request);
// What the ranks get.
Environment rank_environment(const LaunchRequest& request, const std::string& address,
                             const std::string& token);
// What mpirun gets: the ranks' part, which it is told to pass on, and leave to run as root.
Environment mpirun_environment(Environment variables);
// `passed`: the ranks' environment, given to mpirun by name (values stay out of `ps`).
std::vector<std::string> mpirun_command(const LaunchRequest& request, const Environment& passed);

}  // namespace shardproof

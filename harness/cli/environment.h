// environment: the only place that reads environment variables: once, for the verbs.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace shardproof {

using Environment = std::map<std::string, std::string>;

Environment read_environment();

// Where a parallel starter (mpirun, srun) put this process; nothing in a process that was started
// alone or in a world of one.
struct StartedAs {
  int rank = 0;
  int world = 1;
};
std::optional<StartedAs> started_as(const Environment& environment);
// Whether mpirun or srun started this process, be it alone: then stdout is of its making.
bool has_starter(const Environment& environment);

// Error bad_input where SHARDPROOF_FAULT is set, which `verb` would not act on.
void refuse_fault_variable(const Environment& environment, const std::string& verb);

}  // namespace shardproof

// environment: the one place where SHARDPROOF_ and MPI variables are read.
#include "harness/cli/environment.h"

#include <unistd.h>

#include <charconv>

#include "base/error.h"

namespace shardproof {
namespace {

int number(const Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  if (found == environment.end()) return 0;
  const std::string& text = found->second;
  int value = 0;
  const auto end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < 0) {
    throw Error(ErrorKind::bad_input, name, "'" + text + "'; expected a number >= 0");
  }
  return value;
}

}  // namespace

Environment read_environment() {
  Environment out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) out[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return out;
}

bool has_starter(const Environment& environment) {
  return environment.contains("OMPI_COMM_WORLD_SIZE") || environment.contains("PMI_SIZE") ||
         environment.contains("SLURM_STEP_NUM_TASKS");
}

void refuse_fault_variable(const Environment& environment, const std::string& verb) {
  const auto found = environment.find("SHARDPROOF_FAULT");
  if (found == environment.end() || found->second.empty()) return;
  throw Error(ErrorKind::bad_input, "SHARDPROOF_FAULT",
              "found '" + found->second + "'; expected it unset: " + verb +
                  " makes runs of its own, in which it would not fire (train and resume act on "
                  "it; replay takes a fault as the key run.fault)");
}

// SLURM's per-step variables: a shell inside an allocation has SLURM_NTASKS too, but no step.
std::optional<StartedAs> started_as(const Environment& environment) {
  const struct {
    const char* world;
    const char* rank;
  } starters[] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                  {"PMI_SIZE", "PMI_RANK"},
                  {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  for (const auto& starter : starters) {
    const int world = number(environment, starter.world);
    if (world > 1) return StartedAs{number(environment, starter.rank), world};
  }
  return std::nullopt;
}

}  // namespace shardproof

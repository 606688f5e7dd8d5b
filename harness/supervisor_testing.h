// supervisor_testing: a supervised run with all that is heard of it, and the run that nothing
// befell. For tests.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/load.h"
#include "harness/supervisor.h"
#include "train/case_testing.h"

namespace shardproof {

// The state behind the last step, and what each step came to when it was last done.
struct Trajectory {
  std::map<std::int64_t, std::pair<std::uint64_t, std::uint64_t>> steps;  // loss, gradient norm
  std::string state;

  void listen(RunRequest& request) {
    request.on_step = [this](const StepResult& result, const StepMetrics&) {
      steps[result.step] = {std::bit_cast<std::uint64_t>(result.loss),
                            std::bit_cast<std::uint64_t>(result.grad_norm)};
    };
  }
  bool operator==(const Trajectory&) const = default;
};

// Saves after every second step.
inline Config supervised_case(const std::string& layout, const std::string& fault, int restarts) {
  Config config = small_case(layout, 6);
  config.checkpoint.directory = "memory";
  config.checkpoint.every = 2;
  config.run.fault = fault;
  config.run.restarts = restarts;
  config.run.restart_seconds = 0;
  return config;
}

inline std::string state_of_newest(Storage& storage) {
  const std::vector<std::string> ids = list_checkpoints(storage);
  return ids.empty() ? "none"
                     : ids.back() + " " + read_manifest(storage, ids.back()).state_digest().hex();
}

// On thread ranks of one layout, without faults: what every run must come to.
inline Trajectory undisturbed(Config config) {
  config.run.fault.clear();
  config.run.restarts = 0;
  config.run.backend = "threads";
  config.checkpoint.directory = "memory";
  Trajectory out;
  RunRequest request;
  request.config = config;
  request.storage = memory_storage();
  out.listen(request);
  run_on_threads(request);
  out.state = state_of_newest(*request.storage);
  return out;
}

struct Heard {
  std::vector<std::string> lines;
  std::vector<Recovery> recoveries;

  Supervision supervision(Clock& clock = Clock::real()) {
    return {[this](const std::string& line) { lines.push_back(line); },
            [this](const Recovery& recovery) { recoveries.push_back(recovery); }, clock};
  }
  std::string text() const {
    std::string all;
    for (const std::string& line : lines) all += line + "\n";
    return all;
  }
  bool has(const std::string& part) const { return text().find(part) != std::string::npos; }
};

}  // namespace shardproof

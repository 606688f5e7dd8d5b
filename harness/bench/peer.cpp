// peer: a child process that prints one line of JSON.
#include "harness/bench/peer.h"

#include <fmt/core.h>

#include <vector>

#include "base/error.h"
#include "harness/bench/measure.h"
#include "harness/child.h"

namespace shardproof::bench {
namespace {

bool has_torch(const std::string& python) {
  try {
    const auto probe =
        run_child({python, "-c", "import torch, torch.distributed"}, std::chrono::seconds(60));
    return probe.exit_code == 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::string find_python(const std::string& asked) {
  std::vector<std::string> candidates{asked};
  if (asked.empty()) candidates = {SHARDPROOF_PEERS_PYTHON, "python3"};
  for (const auto& python : candidates) {
    if (has_torch(python)) return python;
  }
  throw Error(ErrorKind::environment, "bench",
              "no Python with torch was found (tried " + candidates.front() +
                  "): run ci/install --peers, or name one with --python");
}

Json measure_peer(const std::string& python, const std::string& mode, const Config& config,
                  int ranks) {
  const auto& model = config.model;
  const std::string script = SHARDPROOF_SOURCE_DIR "/harness/bench/peer.py";
  std::vector<std::string> command{python, script, "--mode", mode};
  const auto add = [&](const char* name, int value) {
    command.push_back(name);
    command.push_back(std::to_string(value));
  };
  add("--ranks", ranks);
  add("--layers", model.layers);
  add("--width", model.width);
  add("--heads", model.heads);
  add("--vocabulary", model.vocabulary);
  add("--sequence", model.sequence);
  add("--batch", config.training.global_batch / ranks);
  add("--steps", config.training.steps - warm_up_steps);
  const auto result = run_child(command, std::chrono::seconds(600));
  const auto line = result.output.rfind("{\"parameters\"");
  if (result.exit_code != 0 || line == std::string::npos) {
    throw Error(ErrorKind::environment, script,
                fmt::format("exit {}: {}", result.exit_code, result.output));
  }
  return parse_json(result.output.substr(line), script);
}

}  // namespace shardproof::bench

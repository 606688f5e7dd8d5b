// traced_pid: see the header.
#include "harness/bench/traced_pid.h"

#include <fmt/core.h>

#include <fstream>

#include "base/json.h"

namespace shardproof::bench {

pid_t traced_pid(const std::string& trace, int rank) {
  const std::string path = fmt::format("{}/rank_{:05}.jsonl", trace, rank);
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return static_cast<pid_t>(integer_member(parse_json(line, path), "pid", path));
}

}  // namespace shardproof::bench

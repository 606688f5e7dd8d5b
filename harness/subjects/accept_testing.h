// accept_testing: runs `accept --subject` on a file of this folder, for its tests.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/sweep/command.h"

namespace shardproof {

// With the Python of the peers and the MPI of the build in front of any other.
inline CommandResult run_with_peers(const std::vector<std::string>& words,
                                    std::chrono::seconds deadline) {
  const std::string tools = std::filesystem::path(SHARDPROOF_PEERS_PYTHON).parent_path().string() +
                            ":" + std::filesystem::path(SHARDPROOF_MPIEXEC).parent_path().string();
  std::vector<std::string> line = {"/bin/sh", "-c", "PATH=\"$0:$PATH\" exec \"$@\"", tools};
  line.insert(line.end(), words.begin(), words.end());
  return run_command({line, {{"MPI_TRAINER", SHARDPROOF_MPI_TRAINER}}}, deadline);
}

struct Row {
  std::string subject, check, outcome, reason;
};

// The verdicts over a subject file of this folder. Each is as it should be: else the exit code.
inline std::vector<Row> accept(const std::string& file) {
  const TempFolder folder;
  const CommandResult done =
      run_with_peers({SHARDPROOF_COMMAND, "accept", "--subject", SHARDPROOF_SUBJECTS "/" + file,
                      "--set", "subject.at_once=2", "--out", folder.file("report")},
                     std::chrono::seconds(800));
  fmt::print("{}\n", done.output);
  EXPECT_EQ(done.exit_code, 0) << done.output;
  std::vector<Row> rows;
  const std::string report = folder.file("report") + "/report.json";
  std::ifstream written(report);
  const std::string text(std::istreambuf_iterator<char>(written), {});
  const Json whole = parse_json(text, report);
  for (const Json& each : whole.at("verdicts")) {
    rows.push_back({each.at("subject"), each.at("check"), each.at("outcome"), each.at("reason")});
  }
  return rows;
}

inline std::int64_t count(const std::vector<Row>& rows, const std::string& outcome) {
  return std::count_if(rows.begin(), rows.end(),
                       [&](const Row& row) { return row.outcome == outcome; });
}

inline void expect_all_pass(const std::vector<Row>& rows, std::size_t least) {
  EXPECT_GE(rows.size(), least);
  for (const Row& row : rows) {
    EXPECT_EQ(row.outcome, "pass") << row.subject << ": " << row.check << ": " << row.reason;
  }
}

}  // namespace shardproof

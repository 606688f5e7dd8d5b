// ctest: fault timeout=420 processors=2 lock=mpi
// The scripts of faults/scenarios: the minimal matrix, on thread ranks and on MPI processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "faults/matrix.h"
#include "harness/campaign.h"
#include "harness/child.h"

namespace shardproof {
namespace {

std::vector<std::string> scripts() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(SHARDPROOF_SCENARIOS)) {
    out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

FaultScenario scenario_of(const std::string& path, const std::string& backend) {
  const FaultScript script = load_fault_script(path);
  FaultScenario out;
  out.config = with_fault_defaults(parse_run_line(script.run_line));
  out.config.run.backend = backend;
  out.faults = script.faults;
  out.expect = script.expect;
  out.recover_layout = script.recover;
  return out;
}

class FaultScripts : public testing::TestWithParam<std::string> {};

TEST_P(FaultScripts, EndAsTheyShouldOnThreads) {
  FaultRunner runner(20);
  const FaultResult result = runner.run(scenario_of(GetParam(), "threads"));
  EXPECT_TRUE(result.pass) << result.why;
}

TEST_P(FaultScripts, EndAsTheyShouldOnProcesses) {
  FaultRunner runner(20, SHARDPROOF_COMMAND);
  const FaultResult result = runner.run(scenario_of(GetParam(), "mpi"));
  EXPECT_TRUE(result.pass) << result.why;
}

TEST(FaultMatrix, EveryRowHasItsScenarioAndEveryScenarioItsRow) {
  std::vector<std::string> named, stored;
  for (const MatrixRow& row : fault_matrix()) {
    if (!row.scenario.empty()) named.emplace_back(row.scenario);
  }
  for (const std::string& path : scripts()) {
    stored.push_back(std::filesystem::path(path).stem().string());
  }
  std::sort(named.begin(), named.end());
  EXPECT_EQ(named, stored);
}

INSTANTIATE_TEST_SUITE_P(All, FaultScripts, testing::ValuesIn(scripts()), [](const auto& info) {
  return std::filesystem::path(info.param).stem().string();
});

}  // namespace
}  // namespace shardproof

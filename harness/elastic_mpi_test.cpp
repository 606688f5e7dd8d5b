// ctest: fault timeout=90 processors=2 lock=mpi
// Elastic runs on MPI processes: ranks get a real SIGKILL, the others go on in place, and the run
// ends with the bits of the one that nobody died in. This executable is also the rank.
#include <poll.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/temp_folder.h"
#include "comm/mpi_communicator.h"
#include "harness/child.h"
#include "harness/elastic_testing.h"
#include "harness/launcher_testing.h"
#include "harness/request_file.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

struct MpiEnd {
  ElasticEnd end;
  LaunchResult launched;
  Trace trace;
};

// Named so, this executable is a rank 1 that leaves by exit() behind the first save.
constexpr const char* that_exits = "that_exits";

[[noreturn]] void exit_behind_a_save(const std::string& request_file) {
  std::ostringstream text;
  text << std::ifstream(request_file).rdbuf();
  const RunRequest request = request_from_json(parse_json(text.str(), request_file), request_file);
  const auto storage = posix_storage(request.config.checkpoint.directory, true);
  while (list_checkpoints(*storage).empty()) poll(nullptr, 0, 1);
  std::exit(7);
}

MpiEnd run_on_processes(Config config, const std::string& faults, bool exits = false) {
  const TempFolder folder;
  MpiEnd out;
  RunRequest request;
  request.config = std::move(config);
  request.config.run.backend = "mpi";
  request.config.run.fault = faults;
  request.config.checkpoint.directory = folder.path() + "/checkpoints";
  request.trace.directory = folder.path() + "/trace";
  request.program = own_executable();
  if (exits) {
    request.program = folder.path() + "/" + that_exits;
    std::filesystem::create_symlink(own_executable(), request.program);
  }
  request.launch_deadline = std::chrono::seconds(40);
  keep_bits(request, out.end);
  testing::internal::CaptureStdout();
  out.launched = launch_run(request);
  out.end.said = testing::internal::GetCapturedStdout();
  for (const RankEnd& rank : out.launched.ranks) out.end.error += rank.error;
  const auto storage = posix_storage(request.config.checkpoint.directory, true);
  const auto ids = list_checkpoints(*storage);
  if (!ids.empty()) out.end.state = read_manifest(*storage, ids.back()).state_digest().hex();
  out.trace = read_trace(request.trace.directory);
  return out;
}

void expect_died(const MpiEnd& run, const std::vector<int>& dead) {
  std::vector<int> found;
  for (std::size_t rank = 0; rank < run.launched.ranks.size(); ++rank) {
    if (run.launched.ranks[rank].died) found.push_back(static_cast<int>(rank));
  }
  EXPECT_EQ(found, dead) << run.end.said;
}

std::vector<std::string> layouts_of_recoveries(const Trace& trace) {
  std::vector<std::string> out;
  for (const Json& event : trace.harness) {
    if (event["kind"] == "recovery") out.push_back(event["layout"]);
  }
  return out;
}

TEST(ElasticMpi, AKilledRankLeavesThreeAndASpareMakesThemFour) {
  if (!MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  const Config config = elastic_case("dp4.zero1", {"run.spares=1", "training.steps=10"});
  const MpiEnd run = run_on_processes(config, "step:2:5:backward!kill");
  EXPECT_TRUE(run.launched.ok()) << run.end.said << run.end.error;
  expect_died(run, {2});
  expect_same_end(run.end, config, "4 to 3 to 4");
  EXPECT_EQ(layouts_of_recoveries(run.trace), (std::vector<std::string>{"dp3.zero1", "dp4.zero1"}))
      << run.end.said;
}

// Rank 0, which commits, prints and looks for the checkpoint; then one while they regroup.
TEST(ElasticMpi, RankZeroAndOneThatRegroupsAreKilled) {
  if (!MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  const Config config = elastic_case("dp2.tp2");
  const MpiEnd run =
      run_on_processes(config, "file:0:link.1:before!kill;call:1:world~1:1:before!kill");
  EXPECT_TRUE(run.launched.ok()) << run.end.said << run.end.error;
  expect_died(run, {0, 1});
  expect_same_end(run.end, config, "two deaths");
}

TEST(ElasticMpi, ARankThatLeavesByExitHasDied) {
  if (!MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  const Config config = elastic_case("dp3.zero1", {"training.steps=60"});
  const MpiEnd run = run_on_processes(config, "", true);
  EXPECT_TRUE(run.launched.ok()) << run.end.said << run.end.error;
  expect_died(run, {1});
  expect_same_end(run.end, config, "exit()");
}

TEST(ElasticMpi, WhatIsNoDeathEndsTheRun) {
  if (!MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  const MpiEnd run =
      run_on_processes(elastic_case("dp2.zero1", {"run.spares=1"}), "step:1:3:forward!nan");
  EXPECT_FALSE(run.launched.ok());
  EXPECT_EQ(failure_of(run.launched).kind(), ErrorKind::numeric) << run.end.error;
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv, char** environment) {
  if (argc == 3 && std::string(argv[1]) == "rank") {
    auto variables = shardproof::launcher_testing::variables_of(environment);
    const bool exits = std::string(argv[0]).ends_with(shardproof::that_exits);
    if (exits && variables["OMPI_COMM_WORLD_RANK"] == "1") {
      std::thread(shardproof::exit_behind_a_save, std::string(argv[2])).detach();
    }
    return shardproof::rank_main(argv[2], variables["SHARDPROOF_CONTROL"],
                                 variables["SHARDPROOF_CONTROL_TOKEN"],
                                 std::stoi(variables["OMPI_COMM_WORLD_RANK"]));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

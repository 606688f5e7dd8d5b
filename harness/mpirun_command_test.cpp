// ctest: unit
#include "harness/mpirun_command.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "comm/mpi_communicator.h"

namespace shardproof {
namespace {

bool contains(const std::vector<std::string>& command, const std::vector<std::string>& words) {
  return std::search(command.begin(), command.end(), words.begin(), words.end()) != command.end();
}

LaunchRequest request_of(std::vector<std::string> command) {
  LaunchRequest request;
  request.ranks = 3;
  request.command = std::move(command);
  request.mpirun = "/bin/sh";
  return request;
}

TEST(MpirunCommand, StartsTheRanksAndHidesValues) {
  const LaunchRequest request = checked_request(request_of({"prog", "-x", "y"}));
  const auto command = mpirun_command(request, {{"TOKEN", "secret"}});
  EXPECT_EQ(command.front(), "/bin/sh");
  EXPECT_TRUE(contains(command, {"-n", "3"}));
  EXPECT_TRUE(contains(command, {"-x", "TOKEN"}));
  EXPECT_TRUE(contains(command, {"--map-by", ":OVERSUBSCRIBE"}));
  EXPECT_EQ(std::vector(command.end() - 3, command.end()),
            (std::vector<std::string>{"prog", "-x", "y"}));
  EXPECT_EQ(contains(command, {"--with-ft", "ulfm"}), MpiWorld::has_ulfm());
  for (const std::string& word : command) EXPECT_EQ(word.find("secret"), std::string::npos);
}

TEST(MpirunCommand, FaultToleranceAndHostfileAreAskedFor) {
  LaunchRequest request = request_of({"prog"});
  request.fault_tolerant = false;
  request.hostfile = "/hosts";
  const auto command = mpirun_command(request, {});
  EXPECT_FALSE(contains(command, {"--with-ft"}));
  EXPECT_TRUE(contains(command, {"--hostfile", "/hosts"}));
  EXPECT_FALSE(contains(command, {":OVERSUBSCRIBE"}));
}

TEST(MpirunCommand, RanksGetOneThreadUnlessToldOtherwise) {
  LaunchRequest request = request_of({"prog"});
  request.environment = {{"OMP_NUM_THREADS", "2"}, {"OTHER", "x"}};
  const Environment ranks = rank_environment(request, "host:1", "token");
  EXPECT_EQ(ranks.at("OMP_NUM_THREADS"), "2");
  EXPECT_EQ(ranks.at("MKL_NUM_THREADS"), "1");
  EXPECT_EQ(ranks.at("OTHER"), "x");
  EXPECT_EQ(ranks.at("SHARDPROOF_CONTROL"), "host:1");
  EXPECT_EQ(ranks.at("SHARDPROOF_CONTROL_TOKEN"), "token");
  EXPECT_EQ(mpirun_environment(ranks).contains("OMPI_ALLOW_RUN_AS_ROOT"), geteuid() == 0);
}

}  // namespace
}  // namespace shardproof

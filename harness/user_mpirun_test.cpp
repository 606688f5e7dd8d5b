// ctest: fault timeout=180 lock=mpi
// Ranks under the user's own mpirun: rank 0 hosts the control socket and names the first rank that
// dies, whether or not mpirun tolerates deaths. The command is run as a user types it.
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/json.h"
#include "base/temp_folder.h"
#include "comm/mpi_communicator.h"
#include "harness/child.h"
#include "harness/launcher.h"
#include "train/case_testing.h"
#include "train/config.h"

namespace shardproof {
namespace {

using std::chrono::seconds;

constexpr double run_deadline = 20;  // of a rank's wait for another

// The command's own launcher, told where the ranks run.
TEST(UserMpirun, AHostfileOfThisMachineIsTaken) {
  const TempFolder folder;
  folder.write("case.toml", to_toml(small_case("dp2", 2)));
  folder.write("hosts", "localhost slots=2\n");
  const ChildResult child = run_child({SHARDPROOF_COMMAND, "train", folder.file("case.toml"),
                                       "--backend", "mpi", "--hostfile", folder.file("hosts")},
                                      seconds(60));
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_NE(child.output.find("step    1/2  loss "), std::string::npos) << child.output;
}

ChildResult train_under_mpirun(const TempFolder& folder, bool fault_tolerant, double deadline,
                               const std::string& fault) {
  Config config = small_case("dp3.zero1", 50);
  config.run.deadline = deadline;
  std::ofstream(folder.file("case.toml")) << to_toml(config);
  std::vector<std::string> command{find_mpirun(),         "-n",        "3",    "--map-by",
                                   ":OVERSUBSCRIBE",      "--bind-to", "none", "--mca",
                                   "mpi_yield_when_idle", "1"};
  if (fault_tolerant) command.insert(command.end(), {"--with-ft", "ulfm"});
  command.insert(command.end(), {SHARDPROOF_COMMAND, "train", folder.file("case.toml")});
  return run_child(command, seconds(60),
                   {{"SHARDPROOF_TRACE", folder.file("trace")},
                    {"SHARDPROOF_FAULT", fault},
                    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) {
    ++found;
  }
  return found;
}

std::vector<Json> harness_events(const TempFolder& folder) {
  std::vector<Json> events;
  std::ifstream file(folder.file("trace") + "/harness.jsonl");
  for (std::string line; std::getline(file, line);) events.push_back(parse_json(line, "event"));
  return events;
}

// Processes whose command line holds `text`.
std::vector<std::string> processes_with(const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "cmdline");
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.find(text) != std::string::npos) found.push_back(entry.path().filename());
  }
  return found;
}

// mpirun may return a moment before the last rank does.
void expect_all_gone(const TempFolder& folder) {
  const Deadline deadline = Deadline::after(seconds(10));
  while (!processes_with(folder.file("case.toml")).empty() && !deadline.expired()) {
    poll(nullptr, 0, 10);
  }
  EXPECT_EQ(processes_with(folder.file("case.toml")), std::vector<std::string>{});
}

// Ranks of different command lines; `each` holds what one process is started with.
ChildResult under_mpirun(const std::vector<std::vector<std::string>>& each) {
  std::vector<std::string> command{find_mpirun(), "--map-by", ":OVERSUBSCRIBE",      "--bind-to",
                                   "none",        "--mca",    "mpi_yield_when_idle", "1"};
  for (const std::vector<std::string>& arguments : each) {
    if (&arguments != &each.front()) command.push_back(":");
    command.insert(command.end(), {"-n", "1", SHARDPROOF_COMMAND});
    command.insert(command.end(), arguments.begin(), arguments.end());
  }
  return run_child(command, seconds(60),
                   {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
}

TEST(UserMpirunCommand, RanksWithOtherValuesAreNamedInsteadOfWaitedFor) {
  const TempFolder folder;
  folder.write("case.toml", to_toml(small_case("dp3.zero1", 3)));
  const std::string metrics = folder.file("metrics");
  const struct {
    std::vector<std::string> odd;  // what rank 1 alone is started with
    std::string says;
  } cases[] = {
      {{"--steps", "4"}, "training.steps: rank 1 has 4; ranks 0, 2 have 3"},
      {{"--metrics", metrics}, "--metrics: rank 1 has on; ranks 0, 2 have off"},
      {{"--set", "training.seed=7"}, "training.seed: rank 1 has 7; ranks 0, 2 have 1"},
  };
  for (const auto& bad : cases) {
    const std::vector<std::string> plain{"train", folder.file("case.toml")};
    std::vector<std::string> odd = plain;
    odd.insert(odd.end(), bad.odd.begin(), bad.odd.end());
    const auto result = under_mpirun({plain, odd, plain});
    EXPECT_FALSE(result.timed_out) << bad.says;
    EXPECT_NE(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("mismatch: agreement on " + bad.says), std::string::npos)
        << bad.says << ": " << result.output;
  }
}

TEST(UserMpirunCommand, WhatStartsItsOwnRanksIsRefused) {
  const TempFolder folder;
  const std::vector<std::vector<std::string>> verbs = {
      {"accept", "--out", folder.file("out")},
      {"replay", "training.steps=4", "--out", folder.file("out")}};
  for (const auto& verb : verbs) {
    const auto result = under_mpirun({verb, verb});
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(verb[0] + ": was started 2 times by mpirun"), std::string::npos)
        << result.output;
    EXPECT_FALSE(std::filesystem::exists(folder.file("out")));
  }
}

class UserMpirun : public testing::TestWithParam<bool> {};

TEST_P(UserMpirun, RankZeroNamesTheDeadRankAndItsPhase) {
  if (GetParam() && !MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  const TempFolder folder;
  const Duration begin = Clock::real().now();
  const auto result = train_under_mpirun(folder, GetParam(), run_deadline, "1:2:backward:kill");
  EXPECT_FALSE(result.timed_out) << result.output;
  EXPECT_NE(result.exit_code, 0) << result.output;
  EXPECT_EQ(count(result.output, "shardproof: rank 1 died at step 2, backward; noticed "), 1u)
      << result.output;
  EXPECT_EQ(count(result.output, " died at "), 1u) << result.output;
  if (GetParam()) {  // the others end by themselves; without ULFM mpirun ends them
    EXPECT_EQ(result.exit_code, exit_code(ErrorKind::peer_died)) << result.output;
    EXPECT_GE(count(result.output, "world rank 1"), 1u) << result.output;
  }
  const auto events = harness_events(folder);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(string_member(events[0], "kind", "event"), "death");
  EXPECT_EQ(integer_member(events[0], "rank", "event"), 1);
  EXPECT_EQ(integer_member(events[0], "step", "event"), 2);
  EXPECT_EQ(string_member(events[0], "phase", "event"), "backward");
  EXPECT_LT(std::chrono::duration<double>(Clock::real().now() - begin).count(), run_deadline);
  expect_all_gone(folder);
}

INSTANTIATE_TEST_SUITE_P(Mpirun, UserMpirun, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "FaultTolerant" : "Plain");
});

TEST(UserMpirun, ARankThatIsLateIsNotCalledDead) {
  if (!MpiWorld::has_ulfm()) GTEST_SKIP() << "this MPI has no ULFM";
  const TempFolder folder;
  const auto result = train_under_mpirun(folder, true, 1, "1:2:backward:delay=4");
  EXPECT_FALSE(result.timed_out) << result.output;
  EXPECT_NE(result.exit_code, 0) << result.output;
  EXPECT_EQ(count(result.output, " died at "), 0u) << result.output;
  EXPECT_TRUE(harness_events(folder).empty());
  expect_all_gone(folder);
}

}  // namespace
}  // namespace shardproof

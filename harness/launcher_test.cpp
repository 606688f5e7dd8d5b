// ctest: fault timeout=120 processors=2 lock=mpi
// Every way for ranks to end, tried with real processes: this executable again as ranks (--rank
// MODE).
#include "harness/launcher.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/launcher_testing.h"

namespace shardproof::launcher_testing {
namespace {

class LauncherTest : public testing::Test {
 protected:
  std::vector<Json> events() const {
    std::vector<Json> all;
    std::ifstream in(folder_.file("harness.jsonl"));
    for (std::string line; std::getline(in, line);) all.push_back(parse_json(line, "harness"));
    return all;
  }
  Json event(const std::string& kind) const {
    for (const Json& each : events()) {
      if (each.at("kind") == kind) return each;
    }
    return nullptr;
  }

  const TempFolder folder_;
};

TEST_F(LauncherTest, ForwardsOutputByRankAndSeesANormalEnd) {
  Heard heard;
  LaunchRequest request = request_for("ok", heard);
  request.environment = {{"GREETING", "a = \"b\" and $HOME"}};
  request.trace_directory = folder_.path();
  const LaunchResult result = launch(request);
  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(result.first_death);
  for (int r = 0; r < 4; ++r) {
    EXPECT_TRUE(
        heard.has(r, "hello from " + std::to_string(r) + " with a = \"b\" and $HOME and 1 thread"))
        << heard.text();
    EXPECT_TRUE(heard.has(r, "to stderr"));
    EXPECT_TRUE(heard.has(r, "no newline at the end"));
    EXPECT_EQ(result.ranks[static_cast<std::size_t>(r)].exit_code, 0);
  }
  EXPECT_EQ(heard.pids.size(), 4u);
  expect_gone(heard.pids);
  EXPECT_EQ(events().front().at("kind"), "start");
  EXPECT_EQ(event("start").at("ranks"), 4);
  EXPECT_EQ(event("exit").at("code"), 0);
  EXPECT_EQ(event("death"), nullptr);
}

TEST_F(LauncherTest, AFailedRankIsReportedAndTheOthersAreEnded) {
  Heard heard;
  const LaunchResult result = launch(request_for("exit3", heard));
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.timed_out);
  EXPECT_FALSE(result.first_death) << result.first_death->rank;
  EXPECT_EQ(result.ranks[1].exit_code, 3);
  EXPECT_EQ(result.ranks[1].error, "the config is wrong");
  EXPECT_TRUE(result.ranks[1].finished);
  EXPECT_FALSE(result.ranks[0].finished);
  expect_gone(heard.pids);
}

TEST_F(LauncherTest, AStoppedRankIsNamedAsStoppedWithItsPlace) {
  Heard heard;
  LaunchRequest request = request_for("stop", heard);
  request.trace_directory = folder_.path();
  request.environment = {{"EVENTS", folder_.file("harness.jsonl")}};
  const LaunchResult result = launch(request);
  EXPECT_FALSE(result.ok());
  ASSERT_TRUE(result.first_death) << heard.text();
  EXPECT_EQ(result.first_death->rank, 1);
  EXPECT_TRUE(result.first_death->stopped);
  EXPECT_EQ(result.first_death->place, "step 3, forward");
  EXPECT_EQ(event("death").at("stopped"), true);
  EXPECT_EQ(result.ranks[0].error, "waited too long");
  expect_gone(heard.pids);
}

TEST_F(LauncherTest, AKilledRankIsNamedWithItsPlaceWithinHalfASecond) {
  for (const bool fault_tolerant : {true, false}) {
    Heard heard;
    LaunchRequest request = request_for("kill", heard);
    request.fault_tolerant = fault_tolerant;
    request.trace_directory = folder_.path();
    std::vector<double> told;
    request.on_failure = [&](const Failure&) { told.push_back(now()); };
    const double begin = now();
    const LaunchResult result = launch(request);
    EXPECT_FALSE(result.ok());
    EXPECT_FALSE(result.timed_out);
    ASSERT_TRUE(result.first_death) << heard.text();
    ASSERT_EQ(told.size(), 1U) << "at once, and of the first alone";
    EXPECT_LT(told[0] - heard.killed_at, 0.5);
    ASSERT_TRUE(result.first_failure);
    EXPECT_EQ(result.first_failure->kind, Failure::Kind::death);
    EXPECT_EQ(result.first_failure->rank, 2);
    EXPECT_EQ(result.first_failure->place, "step 13, backward");
    EXPECT_EQ(result.first_death->rank, 2);
    EXPECT_EQ(result.first_death->place, "step 13, backward");
    EXPECT_GT(heard.killed_at, begin);
    EXPECT_LT(begin + result.first_death->noticed_seconds - heard.killed_at, 0.5);
    EXPECT_FALSE(result.ranks[2].exit_code);
    EXPECT_EQ(heard.pids.size(), 8u) << heard.text();
    expect_gone(heard.pids);
    EXPECT_EQ(event("death").at("rank"), 2);
    EXPECT_EQ(event("death").at("phase"), "backward");
    EXPECT_EQ(event("deadline"), nullptr);
  }
}

// Those that are to outlive a death say where they are, or are ended as well.
TEST_F(LauncherTest, SurvivorsWithoutASignOfLifeAreEnded) {
  Heard heard;
  LaunchRequest request = request_for("kill_last", heard);
  request.outlives_deaths = true;
  request.patience = milliseconds(300);
  const LaunchResult result = launch(request);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.timed_out);
  EXPECT_TRUE(result.ranks[2].died);
  ASSERT_TRUE(result.first_death) << heard.text();
  EXPECT_EQ(result.first_death->rank, 2);
  expect_gone(heard.pids);
}

TEST_F(LauncherTest, LeavingWithoutDoneIsADeath) {
  Heard heard;
  const LaunchResult result = launch(request_for("deserts", heard));
  EXPECT_FALSE(result.ok());
  EXPECT_TRUE(result.first_death);
  expect_gone(heard.pids);
}

TEST_F(LauncherTest, AHangEndsAtTheDeadlineAlsoWhenRanksIgnoreSigterm) {
  Heard heard;
  LaunchRequest request = request_for("stubborn", heard);
  request.deadline = seconds(10);  // a process with LibTorch may need seconds to start
  request.trace_directory = folder_.path();
  const LaunchResult result = launch(request);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_FALSE(result.first_death);
  EXPECT_GE(result.seconds, 10);
  EXPECT_LT(result.seconds, 20);
  EXPECT_EQ(heard.pids.size(), 8u) << heard.text();
  expect_gone(heard.pids);
  EXPECT_NE(event("deadline"), nullptr);
}

ErrorKind kind_of(const LaunchRequest& request, std::string* text = nullptr) {
  try {
    launch(request);
  } catch (const Error& error) {
    if (text) *text = error.what();
    return error.kind();
  }
  ADD_FAILURE() << "no Error";
  return ErrorKind::numeric;
}

TEST_F(LauncherTest, BadInputIsNamed) {
  Heard heard;
  LaunchRequest request = request_for("ok", heard);
  std::string text;
  request.hostfile = folder_.file("absent");
  EXPECT_EQ(kind_of(request, &text), ErrorKind::bad_input);
  EXPECT_NE(text.find("/absent"), std::string::npos) << text;
  std::ofstream(folder_.file("empty")) << "# nobody\n\n";
  request.hostfile = folder_.file("empty");
  EXPECT_EQ(kind_of(request), ErrorKind::bad_input);

  request = request_for("ok", heard);
  request.ranks = 0;
  EXPECT_EQ(kind_of(request), ErrorKind::bad_input);
  request = request_for("ok", heard);
  request.command.clear();
  EXPECT_EQ(kind_of(request), ErrorKind::bad_input);
  request = request_for("ok", heard);
  request.mpirun = folder_.file("mpirun");
  EXPECT_EQ(kind_of(request, &text), ErrorKind::environment);
  EXPECT_NE(text.find(folder_.file("mpirun")), std::string::npos) << text;
}

TEST_F(LauncherTest, RanksThatNeverConnectAreAnErrorWithWhatMpirunSaid) {
  Heard heard;
  LaunchRequest request = request_for("early", heard);
  std::string text;
  EXPECT_EQ(kind_of(request, &text), ErrorKind::environment);
  EXPECT_NE(text.find("code 7"), std::string::npos) << text;
  request.command = {folder_.file("absent")};
  EXPECT_EQ(kind_of(request, &text), ErrorKind::environment);
  EXPECT_NE(text.find("absent"), std::string::npos) << text;
  request.command = {"/bin/sleep", "60"};
  request.connect_deadline = milliseconds(500);
  const LaunchResult result = launch(request);
  EXPECT_TRUE(result.timed_out);
  EXPECT_FALSE(result.ok());
  EXPECT_NE(result.ranks[3].error.find("connect"), std::string::npos);
}

TEST_F(LauncherTest, AHostfileIsPassedOn) {
  Heard heard;
  LaunchRequest request = request_for("ok", heard);
  request.hostfile = folder_.file("hosts");
  std::ofstream(request.hostfile) << "localhost slots=4\n";
  EXPECT_TRUE(launch(request).ok()) << heard.text();
}

TEST(FindMpirun, FindsTheOneBesideTheLibrary) {
  EXPECT_EQ(access(find_mpirun().c_str(), X_OK), 0) << find_mpirun();
}

}  // namespace
}  // namespace shardproof::launcher_testing

int main(int argc, char** argv, char** environment) {
  if (argc == 3 && std::string(argv[1]) == "--rank") {
    return shardproof::launcher_testing::rank_main(
        argv[2], shardproof::launcher_testing::variables_of(environment));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}

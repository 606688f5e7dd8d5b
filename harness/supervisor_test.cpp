// ctest: fault timeout=90 processors=2
// Restarts of thread ranks: where they go on from, how often, on which layout, how long they wait,
// what is never tried again; what recovers has the bits of the run that nothing befell.
#include "harness/supervisor.h"

#include <algorithm>
#include <atomic>
#include <fstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "harness/supervisor_testing.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

class Supervised : public testing::Test {
 protected:
  // The end of a run that must reach it.
  void expect_equal(const Config& config) {
    request.config = config;
    Trajectory found;
    found.listen(request);
    EXPECT_TRUE(supervise(request, heard.supervision(clock))) << heard.text();
    found.state = state_of_newest(*request.storage);
    EXPECT_EQ(found, undisturbed(config)) << heard.text();
  }
  Error error_of_run(const Config& config) {
    request.config = config;
    return error_of([&] { supervise(request, heard.supervision(clock)); });
  }
  RunRequest request = [] {
    RunRequest out;
    out.storage = memory_storage();
    return out;
  }();
  VirtualClock clock;
  Heard heard;
};

std::vector<Json> events(const std::string& trace, const std::string& kind) {
  std::vector<Json> out;
  std::ifstream file(trace + "/harness.jsonl");
  for (std::string line; std::getline(file, line);) {
    const Json event = parse_json(line, trace);
    if (event.at("kind") == kind) out.push_back(event);
  }
  return out;
}

int fired(const std::string& trace, int rank) {
  std::ifstream file(trace + "/faults.rank_0000" + std::to_string(rank) + ".jsonl");
  return static_cast<int>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

TEST_F(Supervised, ADeathAnywhereIsOvercomeFromTheNewestCheckpoint) {
  const struct {
    const char* fault;
    const char* from;
  } cases[] = {
      {"step:1:3:backward!kill", "step-00000002"},
      {"call:1:world/dp.0:all_to_all.4:before!kill", "step-00000002"},
      {"file:0:link.1:before!kill", "step-00000002"},
      {"file:0:link.1:after!kill", "step-00000004"},
      {"file:1:write.3:torn!exit", ""},
      {"step:0:1:forward!kill", ""},
  };
  for (const auto& each : cases) {
    SCOPED_TRACE(each.fault);
    request.storage = memory_storage();
    heard = {};
    expect_equal(supervised_case("dp2.zero1", each.fault, 1));
    ASSERT_EQ(heard.recoveries.size(), 1U);
    EXPECT_EQ(heard.recoveries[0].checkpoint, each.from);
    EXPECT_EQ(heard.recoveries[0].layout, "dp2.zero1");
    const std::string from = each.from;
    EXPECT_EQ(heard.recoveries[0].step, from.empty() ? 0 : from.back() - '0');
    EXPECT_TRUE(heard.has(from.empty() ? "from the beginning (there is no whole checkpoint)"
                                       : "restart 1 of 1 on dp2.zero1 from " + from));
  }
}

TEST_F(Supervised, OtherFailuresToo) {
  for (const char* fault : {"step:1:3:backward!stop", "call:1:world/dp.0:all_to_all.4:before!dtype",
                            "file:0:write.40:before!io_error", "step:1:4:forward!nan"}) {
    SCOPED_TRACE(fault);
    request.storage = memory_storage();
    heard = {};
    Config config = supervised_case("dp2.zero1", fault, 1);
    config.guard.look_seconds = 0.05;
    config.guard.stall_seconds = 0.5;
    expect_equal(config);
    EXPECT_EQ(heard.recoveries.size(), 1U) << heard.text();
  }
}

TEST_F(Supervised, EachFaultFiresInItsOwnAttemptAndTheBackOffDoubles) {
  const TempFolder folder;
  request.trace.directory = folder.file("trace");
  request.metrics_file = folder.file("metrics");
  Config config = supervised_case(
      "dp2.zero1", "step:1:3:backward!kill;1/step:0:3:forward!kill;2/step:1:5:save!kill", 5);
  config.run.restart_seconds = 1;
  expect_equal(config);
  ASSERT_EQ(heard.recoveries.size(), 3U) << heard.text();
  for (int n = 1; n <= 3; ++n) {
    const Recovery& recovery = heard.recoveries[static_cast<std::size_t>(n - 1)];
    EXPECT_DOUBLE_EQ(recovery.part("wait"), 1 << (n - 1));
    EXPECT_EQ(recovery.number, n);
    EXPECT_EQ(recovery.checkpoint, n < 3 ? "step-00000002" : "step-00000004");
    const std::string trace = path_of_restart(request.trace.directory, n);
    EXPECT_EQ(read_trace(trace).ranks.at(0).runs, 1);
    EXPECT_EQ(fired(trace, 0) + fired(trace, 1), n < 3 ? 1 : 0);
    EXPECT_NE(folder.read("metrics.restart_" + std::to_string(n)), "");
  }
  EXPECT_EQ(fired(request.trace.directory, 1), 1);
  EXPECT_EQ(events(request.trace.directory, "attempt").size(), 3U);
  const std::vector<Json> recoveries = events(request.trace.directory, "recovery");
  ASSERT_EQ(recoveries.size(), 3U);
  EXPECT_EQ(recoveries[2].at("checkpoint"), "step-00000004");
  EXPECT_EQ(recoveries[2].at("parts").at("wait"), 4.0);
}

TEST_F(Supervised, ADamagedCheckpointIsSaidAndPassedOver) {
  expect_equal(
      supervised_case("dp2.zero1", "file:0:link.1:after!corrupt_shard;step:1:5:forward!kill", 1));
  EXPECT_TRUE(heard.has("checkpoint step-00000004 is damaged: ")) << heard.text();
  ASSERT_EQ(heard.recoveries.size(), 1U);
  EXPECT_EQ(heard.recoveries[0].checkpoint, "step-00000002");
}

TEST_F(Supervised, ACheckpointOfAStateThatHadGoneWrongIsPassedOver) {
  expect_equal(supervised_case("dp2.zero1", "step:0:3:save!nan", 2));
  EXPECT_TRUE(heard.has("checkpoint step-00000004 was set aside")) << heard.text();
  ASSERT_EQ(heard.recoveries.size(), 1U);
  EXPECT_EQ(heard.recoveries[0].checkpoint, "step-00000002");
  EXPECT_EQ(heard.recoveries[0].number, 2);
}

TEST_F(Supervised, ANumberThatGoesWrongAgainEndsTheRun) {
  Config config = supervised_case("dp2.zero1", "", 9);
  config.guard.loss_max = 3.4;  // of about 3.5
  const Error error = error_of_run(config);
  EXPECT_EQ(name(error.kind()), "numeric");
  EXPECT_EQ(heard.recoveries.size(), 0U);
}

TEST_F(Supervised, ARunThatHadEndedHasNoStepLeft) {
  expect_equal(supervised_case("dp2.zero1", "file:0:link.2:after!kill", 1));
  ASSERT_EQ(heard.recoveries.size(), 1U);
  EXPECT_EQ(heard.recoveries[0].step, -1);
  EXPECT_TRUE(heard.has("no step was left")) << heard.text();
}

TEST_F(Supervised, GivesUpWithItsHistory) {
  const TempFolder folder;
  request.trace.directory = folder.file("trace");
  const Error error = error_of_run(supervised_case(
      "dp2.zero1", "step:1:3:backward!kill;1/step:0:4:forward!kill;1/step:1:5:forward!kill", 1));
  EXPECT_EQ(name(error.kind()), "peer_died");
  EXPECT_EQ(error.world_rank(), 0);
  const std::string text = error.what();
  for (const char* part :
       {"given up after 1 restarts", "attempt 1 on dp2.zero1 from the beginning, 3 steps",
        "attempt 2 on dp2.zero1 from step-00000002, 2 steps", "rank 1"}) {
    EXPECT_NE(text.find(part), text.npos) << text;
  }
  const std::vector<Json> gave_up = events(request.trace.directory, "gave_up");
  ASSERT_EQ(gave_up.size(), 1U);
  EXPECT_EQ(gave_up[0].at("attempts").size(), 2U);
}

TEST_F(Supervised, ARankThatDiesAgainBeforeAStepIsTakenForGone) {
  expect_equal(supervised_case("dp4.zero1", "step:3:3:backward!kill;1/step:3:2:forward!kill", 3));
  ASSERT_EQ(heard.recoveries.size(), 1U) << heard.text();
  EXPECT_EQ(heard.recoveries[0].number, 2);
  EXPECT_EQ(heard.recoveries[0].layout, "dp3.zero1");
}

TEST_F(Supervised, AnotherRankOrAStepBetweenIsNoReasonForFewerRanks) {
  for (const char* fault : {"step:3:3:backward!kill;1/step:2:2:forward!kill",
                            "step:3:3:backward!kill;1/step:3:3:forward!kill"}) {
    request.storage = memory_storage();
    heard = {};
    expect_equal(supervised_case("dp4.zero1", fault, 3));
    EXPECT_EQ(heard.recoveries.back().layout, "dp4.zero1") << fault;
  }
}

TEST_F(Supervised, WithoutASmallerLayoutTheSameIsTriedAgain) {
  Config config = supervised_case("dp2.zero1", "step:1:3:backward!kill;1/step:1:2:forward!kill", 3);
  config.training.accumulation = config.micro_batches() / 2;
  expect_equal(config);
  EXPECT_TRUE(heard.has("no legal layout has fewer ranks: dp2.zero1 again")) << heard.text();
}

TEST_F(Supervised, WhatWouldEndTheSameWayIsNotTriedAgain) {
  Config config = supervised_case("dp2.zero1", "", 3);
  config.data.kind = "text";
  config.data.path = "/no/text";
  config.model.vocabulary = 256;
  EXPECT_EQ(name(error_of_run(config).kind()), "bad_input");
  EXPECT_EQ(heard.text(), "");
  // The same after a restart: the checkpoint is of another run by then.
  config = supervised_case("dp2.zero1", "step:1:3:backward!kill", 3);
  request.resume = "step-00000099";
  EXPECT_EQ(name(error_of_run(config).kind()), "bad_input");
  EXPECT_EQ(heard.text(), "");
}

TEST_F(Supervised, WithoutRestartsTheErrorIsAsItWas) {
  const Error error = error_of_run(supervised_case("dp2.zero1", "step:1:3:backward!kill", 0));
  EXPECT_EQ(name(error.kind()), "peer_died");
  EXPECT_EQ(std::string(error.what()).find("attempt"), std::string::npos) << error.what();
  EXPECT_EQ(heard.text(), "");
}

TEST_F(Supervised, AStopEndsTheBackOff) {
  std::atomic<bool> stop = false;
  request.stop = &stop;
  request.config = supervised_case("dp2.zero1", "step:1:3:backward!kill", 3);
  request.config.run.restart_seconds = 3600;
  Supervision supervision = heard.supervision();  // the real clock: an hour
  supervision.say = [&](const std::string& line) {
    if (line.starts_with("restart 1 of 3")) stop = true;
  };
  EXPECT_FALSE(supervise(request, supervision));
}

TEST_F(Supervised, TheDeadlineIsThatOfAllAttempts) {
  request.launch_deadline = std::chrono::seconds(3);
  Config config = supervised_case(
      "dp2.zero1", "step:1:3:backward!kill;1/step:0:3:forward!kill;2/step:0:3:forward!kill", 3);
  config.run.restart_seconds = 1;  // then 2: at the deadline
  const Error error = error_of_run(config);
  EXPECT_NE(std::string(error.what()).find("no time is left"), std::string::npos) << error.what();
  EXPECT_EQ(heard.recoveries.size(), 1U);
}

TEST_F(Supervised, AFaultThatCouldNotFireIsRefused) {
  const Error error = error_of_run(supervised_case("dp2.zero1", "2/step:1:3:backward!kill", 1));
  EXPECT_EQ(name(error.kind()), "bad_input");
  EXPECT_NE(std::string(error.what()).find("belongs to restart 2"), std::string::npos);
  expect_error(ErrorKind::bad_input, {"run.restarts", "a campaign does not restart"},
               [] { refuse_restarts(supervised_case("dp1", "", 2), "a campaign"); });
}

}  // namespace
}  // namespace shardproof

// ctest: invariant timeout=120 processors=2
// drill: a checkpoint is continued by another process on another layout while its run goes on; the
// result is said; what was saved but is not the run's state, damage and a process that hangs each
// end the run, named; no process outlives it, and nothing that is drilled is pruned.
#include "harness/drill.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "comm/thread_communicator.h"
#include "harness/world.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Lines = std::vector<std::string>;

Config drilled(const TempFolder& folder, int steps) {
  Config config = small_case("dp1", steps);
  config.checkpoint.directory = folder.file("store");
  config.checkpoint.every = 2;
  config.checkpoint.last = false;
  config.checkpoint.drill_every = 1;
  std::filesystem::create_directory(folder.file("store"));
  return config;
}

void run(const Config& config, const std::function<std::unique_ptr<Hooks>(int)>& hooks = {}) {
  RunRequest request;
  request.config = config;
  request.program = SHARDPROOF_COMMAND;
  request.hooks = hooks;
  run_on_threads(request);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(DrillLayouts, AreLegalOnesButTheRunsOwnOrUnderNativeReductionItAlone) {
  Config config = small_case("dp2.zero1", 4);
  EXPECT_EQ(drill_layouts(config), (Lines{"tp2", "dp2.zero3", "cp2", "dp1"}));
  config.numerics.tensor_pieces = 1;
  EXPECT_EQ(drill_layouts(config), (Lines{"dp2.zero3", "cp2", "dp1"}));
  config.numerics.reduction = "native";
  EXPECT_EQ(drill_layouts(config), Lines{"dp2.zero1"});
}

TEST(Drill, EveryNthIsContinuedElsewhereWhileItsRunGoesOn) {
  for (const char* strategy : {"sharded", "seed"}) {
    const TempFolder folder;
    Config config = drilled(folder, 7);
    config.checkpoint.strategy = strategy;
    config.checkpoint.drill_every = 2;
    config.checkpoint.background = true;
    config.checkpoint.keep_last = 1;
    ::testing::internal::CaptureStderr();
    run(config);
    EXPECT_EQ(::testing::internal::GetCapturedStderr(),
              "shardproof: drill of checkpoint step-00000004 on dp2.zero1: verified; 2 steps on, "
              "it has the bits of the run\n");
  }
}

TEST(Drill, SaysHowManyStepsWereComparedWhereTheRunEndsBefore) {
  const TempFolder folder;
  const Config config = drilled(folder, 3);
  ::testing::internal::CaptureStderr();
  run(config);
  EXPECT_EQ(
      ::testing::internal::GetCapturedStderr(),
      "shardproof: drill of checkpoint step-00000002 on dp2.zero1: verified and continued for "
      "2 steps; the run ended after 1 of them, which have its bits\n");
}

// A planted bug: what is saved is not what the run goes on with. Every digest of the checkpoint
// fits.
class SavesAnotherMoment : public Hooks {
 public:
  void phase(std::int64_t, Phase phase, Plan& plan) override {
    const bool saves = phase == Phase::save;
    if (!saves && !std::exchange(changed_, false)) return;
    if (saves && phase != Phase::save) return;
    auto* moment = static_cast<float*>(plan.shards("exp_avg", false).front().data);
    if (saves) {
      was_ = *moment;
      *moment += 1.0F;
      changed_ = true;
    } else {
      *moment = was_;
    }
  }

 private:
  bool changed_ = false;
  float was_ = 0;
};

TEST(Drill, AWholeCheckpointOfAnotherStateEndsTheRunNamed) {
  const TempFolder folder;
  const Config config = drilled(folder, 8);
  expect_error(ErrorKind::mismatch,
               {"drill of checkpoint step-00000002 on dp2.zero1", "step 3", "the run has",
                "the checkpoint gives"},
               [&] { run(config, [](int) { return std::make_unique<SavesAnotherMoment>(); }); });
}

// A drill by hand, of a checkpoint of a run that was not drilled, by `program`.
class ByHand : public ::testing::Test {
 protected:
  void SetUp() override {
    config_ = drilled(folder_, 4);
    config_.checkpoint.drill_every = 0;
    run(config_);
    config_.checkpoint.drill_every = 1;
  }
  std::string script(const std::string& body) const {
    const std::string path = folder_.file("program");
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  void drill(const std::string& program, Duration deadline, bool stopped = false) {
    ThreadWorld world(1);
    const auto comm = world.communicator(0);
    Drill drill(config_, {1, 2, program, deadline}, *comm,
                [&](const std::string& text) { said_.push_back(text); });
    drill.begun(2);
    drill.saved(2);
    EXPECT_EQ(drill.in_use(), std::set<std::string>{"step-00000002"});
    drill.finish(stopped);
    EXPECT_TRUE(drill.in_use().empty());
  }
  TempFolder folder_;
  Config config_;
  Lines said_;
};

TEST_F(ByHand, DamageIsNamed) {
  const auto storage = posix_storage(folder_.file("store"), false);
  const std::string file = read_manifest(*storage, "step-00000002").files.at(0).file;
  std::fstream shard(folder_.file("store") + "/" + file,
                     std::ios::in | std::ios::out | std::ios::binary);
  shard.seekp(-1, std::ios::end);
  shard.put('\x55');
  shard.close();
  expect_error(ErrorKind::corrupt, {"drill of checkpoint step-00000002", "rank_00000.safetensors"},
               [&] { drill(SHARDPROOF_COMMAND, seconds(60)); });
  EXPECT_TRUE(said_.empty());
}

TEST_F(ByHand, AProcessThatHangsIsKilledAtItsDeadlineOrWithTheRun) {
  const std::string pids = folder_.file("pids");
  const std::string hangs = script("echo $$ >> " + pids + "; exec sleep 600");
  expect_error(ErrorKind::timeout, {"drill of checkpoint step-00000002", "had not ended"},
               [&] { drill(hangs, milliseconds(300)); });
  drill(hangs, seconds(600), true);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_TRUE(contains(said_[0], "not finished, the run was stopped")) << said_[0];
  {
    // A run that fails: the drill is just destroyed.
    ThreadWorld world(1);
    const auto comm = world.communicator(0);
    Drill drill(config_, {1, 2, hangs, seconds(600)}, *comm, [](const std::string&) {});
    drill.begun(2);
    drill.saved(2);
  }
  std::ifstream file(pids);
  for (int pid = 0; file >> pid;) {
    EXPECT_TRUE(::kill(pid, 0) != 0 && errno == ESRCH) << pid;
  }
}

TEST_F(ByHand, WhatIsNoResultFailsTheDrill) {
  expect_error(ErrorKind::corrupt, {"exit code 0", "hello"},
               [&] { drill(script("echo hello"), seconds(60)); });
  expect_error(ErrorKind::corrupt, {"exit code 3", "it said nothing"},
               [&] { drill(script("exit 3"), seconds(60)); });
  DrillResult short_one;
  short_one.state = sha256("x");
  expect_error(ErrorKind::corrupt, {"did 0 steps; expected 2"},
               [&] { drill(script("echo '" + print_drill(short_one) + "'"), seconds(60)); });
}

TEST_F(ByHand, AStateOfOtherBitsFailsThoughEveryStepIsTheSame) {
  ThreadWorld world(1);
  const auto comm = world.communicator(0);
  DrillResult theirs;
  for (int step = 2; step < 4; ++step) theirs.steps.push_back({step, 1.5, 0.5, 0.1, 7, false});
  theirs.state = sha256("theirs");
  const auto with = [&](const std::string& state, double loss) {
    Drill drill(config_, {1, 2, script("echo '" + print_drill(theirs) + "'"), seconds(60)}, *comm,
                [&](const std::string& text) { said_.push_back(text); });
    drill.begun(2);
    drill.saved(2);
    drill.after_step({2, loss, 0.5, 0.1, 7, false}, [] { return Digest(); });
    drill.after_step({3, 1.5, 0.5, 0.1, 7, false}, [&] { return sha256(state); });
    drill.finish(false);
  };
  with("theirs", 1.5);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_TRUE(contains(said_[0], "2 steps on, it has the bits of the run")) << said_[0];
  expect_error(ErrorKind::mismatch, {"state digest before step 4", sha256("ours").hex()},
               [&] { with("ours", 1.5); });
  expect_error(ErrorKind::mismatch, {"step 2, loss"}, [&] { with("theirs", 1.25); });
}

}  // namespace
}  // namespace shardproof

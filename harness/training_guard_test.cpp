// ctest: fault timeout=120 processors=2
// The guards of training in whole runs: what is not finite is named, ranges are kept, a spike goes
// back to a checkpoint and ends with the same bits, and an audit finds what changed, and who.
#include <gtest/gtest.h>

#include <bit>
#include <map>

#include "base/error.h"
#include "checkpoint/load.h"
#include "harness/fault_run.h"
#include "harness/layout_run.h"
#include "harness/world.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

Config guarded(const std::string& layout, const std::vector<std::string>& keys = {}) {
  Config config = small_case(layout, 6);
  config.training.global_batch = 12;
  config.checkpoint.every = 2;
  config.checkpoint.directory = "memory";
  for (const std::string& key : keys) set_key(config, key);
  check(config);
  return config;
}

struct Ended {
  std::map<std::int64_t, std::uint64_t> losses;
  std::string state, error, said;
  ErrorKind kind = ErrorKind::io;
  int rank = Error::no_rank;
  std::vector<std::string> files;
};

Ended trained(const Config& config, const std::string& faults = "") {
  Ended out;
  RunRequest request;
  request.config = config;
  request.storage = memory_storage();
  if (!faults.empty()) {
    request.faults = std::make_shared<FaultBoard>(parse_faults(faults, "test"));
  }
  request.on_step = [&](const StepResult& result, const StepMetrics&) {
    out.losses[result.step] = std::bit_cast<std::uint64_t>(result.loss);
  };
  testing::internal::CaptureStderr();
  try {
    run_on_threads(request);
    const auto ids = list_checkpoints(*request.storage);
    out.state = read_manifest(*request.storage, ids.back()).state_digest().hex();
  } catch (const Error& error) {
    out.error = error.what();
    out.kind = error.kind();
    out.rank = error.world_rank();
  }
  out.said = testing::internal::GetCapturedStderr();
  out.files = request.storage->list("");
  if (request.faults) {
    EXPECT_FALSE(request.faults->fired().empty()) << faults;
  }
  return out;
}

void expect_error(const Ended& ended, ErrorKind kind, const std::vector<std::string>& words) {
  EXPECT_EQ(ended.kind, kind) << ended.error;
  for (const std::string& each : words) {
    EXPECT_NE(ended.error.find(each), std::string::npos) << each << " in: " << ended.error;
  }
}

TEST(TrainingGuard, WhatIsNotFiniteIsNamedByItsFirstPiece) {
  const Ended ended = trained(guarded("dp2.zero1"), "step:1:2:forward!nan");
  expect_error(ended, ErrorKind::numeric,
               {"step 2", "on rank 1 the parameter ", " is nan at element ", " of piece "});
  EXPECT_EQ(ended.rank, 1);
}

TEST(TrainingGuard, NumbersOutsideTheDeclaredRangeEndTheRun) {
  expect_error(trained(guarded("dp2.zero1", {"guard.loss_max=0.5"})), ErrorKind::numeric,
               {"step 0", "loss 3", "at most 0.5 (guard.loss_max)"});
  expect_error(trained(guarded("dp2", {"guard.grad_norm_max=1e-3"})), ErrorKind::numeric,
               {"gradient norm", "at most 0.001 (guard.grad_norm_max)"});
  expect_error(trained(guarded("dp2", {"guard.grad_norm_min=1e3"})), ErrorKind::numeric,
               {"gradient norm", "at least 1000 (guard.grad_norm_min)"});
  EXPECT_EQ(trained(guarded("dp2", {"guard.loss_max=50", "guard.grad_norm_max=1e6"})).error, "");
}

// The checkpoint made right after the bad update is not the good one.
TEST(TrainingGuard, ASpikeGoesBackToTheLastGoodCheckpointAndEndsWithTheSameBits) {
  const Ended plain = trained(guarded("dp2.zero1"));
  ASSERT_EQ(plain.error, "");
  const std::vector<std::string> spikes{"guard.spike_factor=2"};
  for (const char* at : {"step:1:2:clipped", "step:1:3:clipped"}) {
    const Ended ended =
        trained(guarded("dp2.zero1", spikes), std::string(at) + "!learning_rate=1000");
    EXPECT_EQ(ended.error, "") << at;
    EXPECT_NE(ended.said.find("rolled back to checkpoint step-00000002"), std::string::npos)
        << ended.said;
    EXPECT_EQ(ended.losses, plain.losses) << at;
    EXPECT_EQ(ended.state, plain.state) << at;
  }
  const Ended first = trained(guarded("dp2.zero1", spikes), "step:1:0:clipped!learning_rate=1000");
  expect_error(first, ErrorKind::numeric, {"step 1", "no checkpoint of an earlier step"});
}

TEST(TrainingGuard, ASpikeThatComesAgainIsTheDatasOwn) {
  // At such a rate the loss rises over the lower of the two before, again and again.
  const std::vector<std::string> wild{"optimizer.lr=0.3", "checkpoint.every=1"};
  std::vector<std::string> watched = wild;
  watched.insert(watched.end(), {"guard.spike_factor=1", "guard.spike_window=2"});
  const Ended plain = trained(guarded("dp2.zero1", wild));
  const Ended ended = trained(guarded("dp2.zero1", watched));
  EXPECT_EQ(ended.error, "");
  EXPECT_NE(ended.said.find("again after the rollback: it comes from the data"), std::string::npos)
      << ended.said;
  EXPECT_EQ(ended.losses, plain.losses);
  EXPECT_EQ(ended.state, plain.state);
}

// Which checks see it depends on when it happens; here every second step is audited: 1, 3 and 5.
TEST(TrainingGuard, EveryOtherStepAuditedFindsAndNamesTheOddOneOut) {
  const Config three = guarded("dp3", {"guard.audit_every=2"});
  expect_error(trained(three, "step:1:2:forward!flip_moment"), ErrorKind::corrupt,
               {"step 2, before the update", "on rank 1, exp_avg ", "is not what it was"});
  expect_error(trained(three, "step:1:3:clipped!flip_gradient"), ErrorKind::corrupt,
               {"step 3, before the update", "on rank 1, grad ", "what the reduction gave"});
  const Ended again = trained(three, "step:1:3:forward!flip_parameter=29");
  expect_error(again, ErrorKind::corrupt,
               {"step 3, after the backward", "of data rank 1, computed again",
                "rank 1 is the odd one out"});
  EXPECT_EQ(again.rank, 1);
  const Ended voted = trained(three, "step:1:3:forward!flip_moment=29");
  expect_error(voted, ErrorKind::mismatch,
               {"step 3, after the update", "copies of the ", "rank 1 is the odd one out"});
  EXPECT_EQ(voted.rank, 1);
  const Ended both =
      trained(guarded("dp2", {"guard.audit_every=2"}), "step:1:3:forward!flip_moment=29");
  expect_error(both, ErrorKind::mismatch, {"ranks 0, 1 differ, and no majority says which"});
  expect_error(trained(three, "step:2:5:save!flip_parameter"), ErrorKind::corrupt,
               {"step 5, before a save", "on rank 2, param "});
}

TEST(TrainingGuard, AStepWhoseNumbersDifferIsDoneAgainBeforeAnythingIsUpdated) {
  const Ended plain = trained(guarded("dp2.zero1"));
  const Ended ended = trained(guarded("dp2.zero1", {"guard.audit_every=1"}),
                              "step:1:5:clipped!learning_rate=1000");  // no later loss would tell
  EXPECT_EQ(ended.error, "");
  EXPECT_NE(ended.said.find("the step is done again"), std::string::npos) << ended.said;
  EXPECT_EQ(ended.losses, plain.losses);
  EXPECT_EQ(ended.state, plain.state);
  const Ended twice = trained(guarded("dp2.zero1", {"guard.audit_every=1"}),
                              "step:1:5:clipped!learning_rate=1000*2");
  expect_error(twice, ErrorKind::mismatch, {"learning rate", "twice", "ranks 0, 1 differ"});
}

TEST(TrainingGuard, AFlippedBitOnTheWireIsFound) {
  const Config config = guarded("dp2.zero1", {"guard.audit_every=100"});
  const Ended ended = trained(config, "call:1:world/dp.0:all_to_all.1:after!flip_recv");
  expect_error(ended, ErrorKind::corrupt, {"of group world/dp.0", "rank 1"});
}

// Every tensor of every step, and the calls that are predicted: as without.
TEST(TrainingGuard, AuditsChangeNoBitAndCountApart) {
  struct Row {
    std::string layout;
    std::vector<std::string> keys;
  };
  const std::vector<Row> rows{{"dp2.zero1", {}},
                              {"dp3.zero3", {}},
                              {"dp2.tp2.sp.zero2", {"model.dropout=0.1"}},
                              {"dp2.cp2.zero1", {}},
                              {"dp2.pp2-zb", {"model.layers=2"}},
                              {"dp2.pp2-1f1b.zero3", {"model.layers=2"}}};
  for (const Row& row : rows) {
    Config config = guarded(row.layout, row.keys);
    config.training.steps = 3;
    config.checkpoint = CheckpointSection();
    Config lone = config;
    lone.run.layout = "dp1";
    config.guard.audit_every = 1;
    const Verdict verdict = judge_layout(traced_in_memory(lone), traced_in_memory(config), 3);
    EXPECT_EQ(verdict.outcome, Outcome::pass) << row.layout << ": " << verdict.reason;
  }
}

}  // namespace
}  // namespace shardproof

// ctest: invariant timeout=120 processors=2
// A new Case that begins with the whole state of an old one: other pieces, reduction or micro-batch
// go on from its weights, moments, step and place in the data; it is another run from there on, has
// the same bits on every layout, and says where it comes from. What is trained on what cannot
// change.
#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "harness/checkpoint_folder.h"
#include "harness/child.h"
#include "harness/layout_run.h"
#include "harness/world.h"
#include "invariants/trace_checks.h"
#include "train/case_testing.h"
#include "train/manifest_testing.h"

namespace shardproof {
namespace {

const std::string id = "step-00000002";

class NewCase : public ::testing::Test {
 protected:
  // Saves before step 2 and goes on to step 4.
  void SetUp() override {
    Config config = old_case();
    config.checkpoint.directory = folder_.file("old");
    uncut_ = run(config);
  }
  static Config old_case() {
    Config config = small_case("dp2.zero1", 4);
    config.checkpoint.every = 2;
    return config;
  }
  static Trace run(const Config& config, std::optional<std::string> resume = std::nullopt,
                   const std::string& new_case_from = "") {
    RunRequest request;
    request.config = config;
    request.resume = std::move(resume);
    request.new_case_from = new_case_from;
    return traced_in_memory(std::move(request));
  }
  // A new Case from the old one's checkpoint, saved into a folder of its own.
  Trace begin(const std::string& change, const std::string& into = "",
              const std::string& layout = "dp2.zero1") {
    Config config = old_case();
    config.run.layout = layout;
    set_key(config, change);
    if (into.empty()) config.checkpoint = {};
    if (!into.empty()) config.checkpoint.directory = folder_.file(into);
    return run(config, id, folder_.file("old"));
  }
  TempFolder folder_;
  Trace uncut_;
};

void expect(const Verdict& verdict, Outcome outcome) {
  EXPECT_EQ(verdict.outcome, outcome)
      << verdict.check << ": " << verdict.reason
      << (verdict.difference ? " " + verdict.difference->print() : "");
}

TEST_F(NewCase, GoesOnFromTheWholeStateInOtherPiecesOnAnyLayout) {
  for (const char* change : {"numerics.tensor_pieces=1", "numerics.sequence_pieces=1",
                             "training.micro_batch=4", "numerics.reduction=native"}) {
    SCOPED_TRACE(change);
    const Trace alone = begin(change);
    const StepRecord &old_step = uncut_.ranks[0].steps[2], &step = alone.ranks[0].steps[0];
    EXPECT_EQ(step.step, 2);
    EXPECT_EQ(step.samples, old_step.samples);
    EXPECT_NEAR(step.loss, old_step.loss, 1e-5);  // the same weights, cut otherwise
    EXPECT_NEAR(alone.ranks[0].steps[1].loss, uncut_.ranks[0].steps[3].loss, 1e-4);  // moments too
    expect(check_data(alone, &uncut_), Outcome::pass);
    if (std::string(change) == "numerics.reduction=native") continue;
    expect(check_layout(alone, begin(change, "", "dp1")), Outcome::pass);
  }
}

// Cut otherwise and back, without a step in between: weights, masters and moments are the same
// bits.
TEST_F(NewCase, CarriesEveryBitOfTheState) {
  const auto digest = [&](const std::string& folder) {
    return read_manifest(*posix_storage(folder_.file(folder), false), id).state_digest().hex();
  };
  const auto cut = [&](const std::string& from, const std::string& into, int pieces) {
    Config config = old_case();
    config.training.steps = 2;
    config.numerics.tensor_pieces = pieces;
    config.checkpoint.directory = folder_.file(into);
    run(config, id, folder_.file(from));
  };
  cut("old", "whole", 1);
  cut("whole", "again", 2);
  EXPECT_NE(digest("whole"), digest("old"));
  EXPECT_EQ(digest("again"), digest("old"));
}

TEST_F(NewCase, SaysWhereItBeganAndIsNeverTakenForTheOldOne) {
  const Trace begun = begin("numerics.tensor_pieces=1", "new");
  const auto storage = posix_storage(folder_.file("new"), false);
  const auto old = posix_storage(folder_.file("old"), false);
  const Manifest manifest = read_manifest(*storage, "step-00000004");
  const Json& origin = manifest.facts.origin.at("new_case_from");
  EXPECT_EQ(origin.at("checkpoint"), id);
  EXPECT_EQ(origin.at("state_digest"), read_manifest(*old, id).state_digest().hex());
  EXPECT_EQ(origin.at("case"), config_digest(old_case()));
  EXPECT_NE(origin.at("changed").dump().find("numerics.tensor_pieces: expected 1, found 2"),
            std::string::npos)
      << origin;
  // It is resumed as any other, and keeps its origin; the old Case and a fresh one are refused.
  Config config = old_case();
  config.numerics.tensor_pieces = 1;
  config.checkpoint.directory = folder_.file("new");
  config.training.steps = 6;
  run(config, "step-00000004");
  EXPECT_EQ(read_manifest(*storage, "step-00000006").facts.origin, manifest.facts.origin);
  expect_error(ErrorKind::conflict, {"began with other weights"},
               [&] { refuse_other_run(config); });
  config.numerics.tensor_pieces = 2;
  expect_error(ErrorKind::refused, {"numerics.tensor_pieces", "resume --new-case"},
               [&] { run(config, "step-00000004"); });
  config.checkpoint.strategy = "seed";
  config.numerics.tensor_pieces = 1;
  config.training.steps = 8;
  expect_error(ErrorKind::refused, {"checkpoint.strategy", "new_case_from", "sharded or full"},
               [&] { run(config, "step-00000004"); });
  expect_error(ErrorKind::conflict, {"one Case", "step-00000006"},
               [&] { refuse_any_run(folder_.file("new")); });
}

TEST_F(NewCase, WhatIsTrainedOnWhatCannotChangeAndSomethingMust) {
  for (const char* change : {"model.dropout=0.1", "data.samples=64", "optimizer.lr=0.5",
                             "training.clip=0.5", "training.seed=9", "training.global_batch=12"}) {
    const std::string key = std::string(change).substr(0, std::string(change).find('='));
    expect_error(ErrorKind::refused, {key, "no new Case"}, [&] { begin(change); });
  }
  expect_error(ErrorKind::bad_input, {"nothing that makes another Case differs"},
               [&] { begin("run.layout=dp1"); });
}

TEST_F(NewCase, OtherKernelsAreOneToo) {
  const auto old = posix_storage(folder_.file("old"), false);
  testing::reseal(*old, id, [](Manifest& manifest) {
    manifest.facts.kernel_fingerprint = "those of another machine";
  });
  Config config = old_case();
  config.checkpoint.directory = folder_.file("old");
  expect_error(ErrorKind::refused, {"kernel fingerprint", "resume --new-case"},
               [&] { run(config, id); });
  EXPECT_EQ(begin("run.deadline=59").ranks[0].steps[0].step, 2);
}

TEST_F(NewCase, SeedsAloneHaveNoStateToBeginWith) {
  Config config = old_case();
  config.checkpoint.strategy = "seed";
  config.checkpoint.directory = folder_.file("seeds");
  run(config);
  config.checkpoint = {};
  config.numerics.tensor_pieces = 1;
  expect_error(ErrorKind::refused, {"it keeps seeds alone"},
               [&] { run(config, id, folder_.file("seeds")); });
}

TEST_F(NewCase, OfTheCommandNeedsAFolderOfItsOwn) {
  const auto resume = [&](std::vector<std::string> more) {
    std::vector<std::string> command{SHARDPROOF_COMMAND, "resume", folder_.file("old"), id};
    command.insert(command.end(), more.begin(), more.end());
    return run_child(command, std::chrono::seconds(60));
  };
  const std::string pieces = "numerics.tensor_pieces=1";
  const std::string other = folder_.file("other"), old = folder_.file("old");
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--new-case", "--set", pieces}, {"--checkpoint", other, "--set", pieces}}) {
    const ChildResult result = resume(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find("--new-case and --checkpoint DIR"), std::string::npos)
        << result.output;
  }
  const ChildResult same = resume({"--new-case", "--checkpoint", old, "--set", pieces});
  EXPECT_EQ(same.exit_code, 2) << same.output;
  EXPECT_NE(same.output.find("takes the checkpoints of one Case"), std::string::npos);
  const ChildResult good = resume({"--new-case", "--checkpoint", other, "--set", pieces});
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_TRUE(verify_checkpoint(*posix_storage(other, false), "step-00000004").empty());
}

}  // namespace
}  // namespace shardproof

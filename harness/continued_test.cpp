// ctest: invariant timeout=120 processors=2
// continued: a good checkpoint walks on as its run did, on any layout; one that is whole byte for
// byte but holds another state does not.
#include "harness/continued.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "checkpoint/load.h"
#include "comm/thread_communicator.h"
#include "harness/world.h"
#include "train/case_testing.h"
#include "train/manifest_testing.h"
#include "train/sections.h"

namespace shardproof {
namespace {

class Continued : public ::testing::Test {
 protected:
  void SetUp() override {
    RunRequest request;
    request.config = small_case("dp2.zero1", 6);
    request.config.checkpoint.directory = folder_.file("store");
    request.config.checkpoint.every = 2;
    request.trace.directory = folder_.file("trace");
    request.trace.digest = true;
    std::filesystem::create_directory(folder_.file("trace"));
    std::filesystem::create_directory(folder_.file("store"));
    run_on_threads(request);
  }
  Continuation what(const std::string& id, int steps, const std::string& layout = "") {
    return {folder_.file("store"), id, folder_.file("trace"), steps, layout};
  }
  TempFolder folder_;
};

TEST_F(Continued, AGoodCheckpointIsItsRunOnAnyLayout) {
  for (const char* layout : {"", "dp1", "tp2", "dp2.tp2.zero3"}) {
    const Verdict verdict = continue_checkpoint(what("step-00000002", 3, layout));
    EXPECT_EQ(verdict.outcome, Outcome::pass) << layout << ": " << verdict.reason;
  }
  EXPECT_EQ(continue_checkpoint(what("step-00000004", 2)).outcome, Outcome::pass);
}

// Every digest fits, and yet a moment is not that of the run.
TEST_F(Continued, AWholeCheckpointOfAnotherStateIsFound) {
  const auto storage = posix_storage(folder_.file("store"), false);
  const Manifest manifest = read_manifest(*storage, "step-00000002");
  const auto pieces =
      gpt_pieces(shape_of(parse_config_json(manifest.facts.config.dump(), "config")));
  testing::State state(pieces, {"param", "exp_avg", "exp_avg_sq", "master"}, 1);
  load_state(*storage, manifest, state.all());
  for (auto& tensor : state.tensors()) {
    if (tensor.what == "exp_avg") tensor.bytes[0] ^= std::byte{1};
  }
  const auto other = posix_storage(folder_.file("other"), true);
  CheckpointFacts facts = manifest.facts;
  facts.layout = "dp1";
  Config config = parse_config_json(facts.config.dump(), "config");
  config.run.layout = "dp1";
  facts.config = to_json(config);
  facts.run_line = run_line(config);
  testing::write_small(*other, 1, "step-00000002", state, facts);
  EXPECT_TRUE(verify_checkpoint(*other, "step-00000002").empty());
  Continuation bad = what("step-00000002", 2);
  bad.directory = folder_.file("other");
  EXPECT_EQ(continue_checkpoint(bad).outcome, Outcome::fail);
}

TEST_F(Continued, WhatCannotBeComparedIsNoPass) {
  expect_error(ErrorKind::bad_input, {"ends before step 7"},
               [&] { continue_checkpoint(what("step-00000006", 2)); });
  expect_error(ErrorKind::bad_input, {"--continue", "at least 2"},
               [&] { continue_checkpoint(what("step-00000002", 1)); });
  expect_error(ErrorKind::bad_input, {"dp5.zero3"},
               [&] { continue_checkpoint(what("step-00000002", 2, "dp5.zero3")); });
}

}  // namespace
}  // namespace shardproof

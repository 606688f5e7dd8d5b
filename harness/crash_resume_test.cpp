// ctest: fault timeout=300 processors=2
// The Commit law and the Resume law together: a run is cut by a crash while it saves; fresh ranks
// resume from whatever is left, or start anew where nothing is, and end with the bits of the run
// that was never cut.
#include <gtest/gtest.h>

#include <set>

#include "checkpoint/load.h"
#include "faults/crash_states/crash_states.h"
#include "faults/crash_states/journal.h"
#include "harness/world.h"

namespace shardproof {
namespace {

constexpr int steps = 4;
constexpr const char* last = "step-00000004";

Config small_config() {
  Config config;
  config.model = {.layers = 1, .width = 8, .heads = 2, .vocabulary = 13, .sequence = 4};
  config.data.samples = 64;
  config.training.micro_batch = 1;
  config.training.global_batch = 4;
  config.training.steps = steps;
  config.run.layout = "dp2.zero1";
  config.checkpoint.every = 2;
  config.checkpoint.directory = "in memory";
  return config;
}

// Trains to the end; the state digest there covers every parameter and moment.
Digest train(const std::shared_ptr<Storage>& storage, bool resume) {
  RunRequest request;
  request.config = small_config();
  request.storage = storage;
  if (resume) request.resume = "";
  run_on_threads(request);
  return read_manifest(*storage, last).state_digest();
}

TEST(CrashResume, WhateverIsLeftContinuesToTheBitsOfTheUncutRun) {
  const auto journal = std::make_shared<crash::Journal>();
  const Digest uncut = train(crash::recorded(memory_storage(), journal), false);
  const auto operations = journal->operations();
  ASSERT_GT(operations.size(), 30u);

  // A sample: of each kind of state and newest checkpoint the first few.
  constexpr int of_each = 2;
  std::map<std::string, int> taken;
  std::map<std::string, int> newest;
  const auto found =
      crash::for_each_crash_state(operations, {}, [&](const crash::CrashState& state) {
        const auto ids = list_checkpoints(*crash::mount(state.disk));
        const std::string id = ids.empty() ? "none" : ids.back();
        if (taken[id + state.kind()]++ >= of_each) return true;
        const std::shared_ptr<Storage> disk = memory_storage();
        crash::copy(state.disk, *disk);
        EXPECT_EQ(train(disk, !ids.empty()), uncut) << id << ", " << state.explain(operations);
        ++newest[id];
        return true;
      });
  EXPECT_GT(found.different, 300u);
  EXPECT_GT(newest["none"], 10);
  EXPECT_GT(newest["step-00000002"], 10);
  EXPECT_GE(newest[last], 1);
}

}  // namespace
}  // namespace shardproof

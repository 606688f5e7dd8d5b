// ctest: invariant
// How many gathers a step of ZeRO 3 launches, counted by hand: none whose unit is not used.
#include "parallel/parameter_flow.h"

#include <gtest/gtest.h>

#include "comm/stack.h"
#include "parallel/make_plan.h"
#include "parallel/plan_testing.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

PlanOptions options_of(int micro_batches) {
  PlanOptions options;  // embedding, two blocks, head
  options.shape.width = 16;
  options.shape.sequence = 8;
  options.shape.tensor_pieces = 1;
  options.shape.sequence_pieces = 1;
  options.micro_batches = micro_batches;
  return options;
}

// On each rank, in each of two steps.
void expect_gathers(std::uint64_t expected, const char* text, const PlanOptions& options) {
  SCOPED_TRACE(text);
  const Layout layout = parse_layout(text);
  on_thread_ranks(layout.world(), [&](Communicator& world) {
    const auto recorder = std::make_shared<FlightRecorder>(world.rank());
    const auto comm =
        wrap(world.split(0, world.rank(), "recorded", default_deadline(world)), {recorder, {}});
    Mesh mesh(*comm, layout);
    const auto plan = make_plan(mesh, options);
    for (int step = 0; step < 2; ++step) {
      recorder->take_counts();
      play_step(*plan, options.shape);
      std::uint64_t gathers = 0;
      for (const auto& [key, count] : recorder->take_counts()) {
        if (std::get<0>(key).find("/gather") != std::string::npos) gathers += count.calls;
      }
      EXPECT_EQ(gathers, expected);
    }
  });
}

// Forward: 4. Backward: the head is there, two blocks come, nothing is fetched after them.
TEST(ParameterFlow, TheLastBackwardOfAStepFetchesNoEmbedding) {
  expect_gathers(4 + 2, "dp2.zero3", options_of(2));
}

// The first backward fetches the embedding for the forward behind it, which also finds a block.
TEST(ParameterFlow, ABackwardFetchesTheEmbeddingForAForward) {
  expect_gathers((4 + 2 + 1) + (2 + 2), "dp2.zero3", options_of(4));
  PlanOptions options = options_of(4);
  options.flow.prefetch_backward = 0;
  expect_gathers((4 + 2) + (1 + 2 + 2), "dp2.zero3", options);
}

// The second forward needs what the first backward has gone by: the head and a block.
TEST(ParameterFlow, WithoutReshardingABackwardGathersNothing) {
  PlanOptions options = options_of(4);
  options.flow.reshard_after_forward = false;
  expect_gathers(4 + 2, "dp2.zero3", options);
}

}  // namespace
}  // namespace shardproof

// ctest: invariant timeout=120
// The predicted calls and bytes of whole steps, with what the model exchanges, against those that
// the groups of a plan on thread ranks make; and against the ring formulas where shares are equal.
#include "parallel/step_cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "comm/stack.h"
#include "parallel/legality.h"
#include "parallel/make_plan.h"
#include "parallel/plan_testing.h"
#include "parallel/seam_cost.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr int rows = 2;

PlanOptions options_of(int micro_batches) {
  PlanOptions options;
  options.shape.width = 16;
  options.shape.vocabulary = 61;
  options.shape.sequence = 8;
  options.shape.tensor_pieces = 4;
  options.shape.sequence_pieces = 4;
  options.micro_batches = micro_batches;
  options.seed = 7;
  return options;
}

// "world/dp.1/shard.0" -> "shard"
std::string label_of(const std::string& group) {
  const std::string last = group.substr(group.rfind('/') + 1);
  return last.substr(0, last.find('.'));
}

using Key = std::tuple<std::string, CallKind, Dtype>;
using Totals = std::map<Key, std::pair<std::uint64_t, std::uint64_t>>;  // calls, elements

struct Predicted {
  Totals totals;
  std::uint64_t bytes = 0;

  void add(const std::string& label, const std::vector<PredictedCall>& calls) {
    for (const PredictedCall& call : calls) {
      auto& [count, elements] = totals[{label, call.kind, call.dtype}];
      ++count;
      elements += call.send_elements;
      bytes += call.bytes;
    }
  }
};

Predicted predict(const Layout& layout, const PlanOptions& options, int rank,
                  const std::vector<int>& micro_batches) {
  Predicted out;
  const auto backend = CommBackend::threads;
  for (const auto& [label, calls] : predicted_step(layout, options.shape, options.micro_batches,
                                                   options.unit_layers, rank, backend)) {
    out.add(label, calls);
  }
  const LayerRange all{0, options.shape.layers};
  for (std::size_t m = 0; m < micro_batches.size(); ++m) {
    for (const SeamCalls& calls :
         {predicted_forward(layout, options.shape, all, rows, rank, backend),
          predicted_backward(layout, options.shape, all, rows, rank, backend)}) {
      out.add("tp", calls.tensor);
      out.add("cp", calls.context);
    }
  }
  return out;
}

void expect_predicted(const std::string& text, int micro_batches) {
  SCOPED_TRACE(text);
  const Layout layout = parse_layout(text);
  const PlanOptions options = options_of(micro_batches);
  ASSERT_EQ(problem(layout, options.shape, micro_batches), "");
  on_thread_ranks(layout.world(), [&](Communicator& world) {
    const int rank = world.rank();
    const auto recorder = std::make_shared<FlightRecorder>(rank);
    const auto comm =
        wrap(world.split(0, rank, "recorded", default_deadline(world)), {recorder, {}});
    Mesh mesh(*comm, layout);
    const auto plan = make_plan(mesh, options);
    recorder->take_counts();
    for (int step = 0; step < 2; ++step) {
      const std::uint64_t before = plan->bytes_sent();
      play_step(*plan, options.shape, {.rows = rows});
      const Predicted expected = predict(layout, options, rank, plan->micro_batches());
      Totals seen;
      for (const auto& [key, count] : recorder->take_counts()) {
        auto& [calls, elements] =
            seen[{label_of(std::get<0>(key)), std::get<1>(key), std::get<2>(key)}];
        calls += count.calls;
        elements += count.elements;
      }
      for (const auto& [key, count] : expected.totals) {
        EXPECT_EQ(seen[key], count)
            << "rank " << rank << " " << std::get<0>(key) << " " << name(std::get<1>(key));
      }
      EXPECT_EQ(seen.size(), expected.totals.size()) << "rank " << rank;
      EXPECT_EQ(plan->bytes_sent() - before, expected.bytes) << "rank " << rank;
    }
  });
}

TEST(StepCost, AStepMakesThePredictedCallsAndBytes) {
  for (const char* layout :
       {"dp1", "dp2", "dp3.zero1", "dp4.zero1", "dp2.zero2", "dp4.zero3", "dp4.zero1-shard2",
        "dp4.zero3-shard2", "tp2", "tp3.sp", "cp2", "cp2-zigzag.zero1", "cp3", "dp2.tp2.zero1",
        "dp2.cp2.zero2", "dp2.tp2.sp.cp2.zero3", "dp2.cp2-ulysses.zero1"}) {
    expect_predicted(layout, 4);
  }
  expect_predicted("dp3", 8);        // subtrees apart
  expect_predicted("dp6.zero1", 4);  // ranks without a micro-batch
}

std::uint64_t bytes_of(const char* layout, const char* label) {
  std::uint64_t sum = 0;
  const PlanOptions options = options_of(4);
  for (const PredictedCall& call :
       predicted_step(parse_layout(layout), options.shape, 4, 1, 0, CommBackend::threads)[label]) {
    if (call.dtype == Dtype::f32) sum += call.bytes;
  }
  return sum;
}

// Shares are equal but for whole blocks of a unit.
void expect_ring(std::uint64_t bytes, double expected, int units) {
  EXPECT_LE(std::abs(static_cast<double>(bytes) - expected), 4.0 * block_elements * units * 8);
}

TEST(StepCost, BytesAreThoseOfTheRingFormulas) {
  const auto size =
      4.0 * static_cast<double>(PieceTable(gpt_pieces(options_of(4).shape)).elements());
  for (const int k : {2, 4}) {
    const double once = size * (k - 1) / k;
    const auto dp = [&](const char* zero) { return fmt::format("dp{}{}", k, zero); };
    expect_ring(bytes_of(dp("").c_str(), "dp"), once, 1);
    expect_ring(bytes_of(dp("").c_str(), "state"), once, 1);
    expect_ring(bytes_of(dp(".zero1").c_str(), "state"), once, 1);
    expect_ring(bytes_of(dp(".zero2").c_str(), "dp"), once * 4 / k, 4);
    expect_ring(bytes_of(dp(".zero3").c_str(), "dp"), once * 4 / k, 4);
    EXPECT_GT(bytes_of(dp(".zero3").c_str(), "gather"), static_cast<std::uint64_t>(once));
  }
}

}  // namespace
}  // namespace shardproof

// ctest: invariant timeout=240
// The predicted calls and bytes of whole steps against those that the groups of a plan on thread
// ranks make, canonical and native, with a tied weight and without; and against the ring formulas
// where shares are equal.
#include "parallel/step_cost.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "comm/stack.h"
#include "parallel/legality.h"
#include "parallel/make_plan.h"
#include "parallel/plan_testing.h"
#include "parallel/thread_ranks.h"

namespace shardproof {
namespace {

constexpr int rows = 2;

PlanOptions options_of(int micro_batches, int layers = 2) {
  PlanOptions options;
  options.shape.layers = layers;
  options.shape.width = 16;
  options.shape.vocabulary = 61;
  options.shape.sequence = 8;
  options.shape.tensor_pieces = 4;
  options.shape.sequence_pieces = 4;
  options.micro_batches = micro_batches;
  options.seed = 7;
  options.bucket_bytes = 4096;
  return options;
}

// "world/dp.1/shard.0" -> "shard"
std::string label_of(const std::string& group) {
  const std::string last = group.substr(group.rfind('/') + 1);
  return last.substr(0, last.find('.'));
}

// What a rank has done since the last look, each call as its group's label, kind, dtype and
// elements; sorted.
using Seen = std::vector<std::tuple<std::string, CallKind, Dtype, std::uint64_t>>;

class Watch {
 public:
  explicit Watch(int rank) : recorder_(std::make_shared<FlightRecorder>(rank, kept)) {}
  std::shared_ptr<FlightRecorder> recorder() const { return recorder_; }

  Seen look() {
    Seen seen;
    const std::uint64_t from = next_;
    for (const FlightRecord& record : recorder_->last()) {
      if (record.id < from) continue;
      seen.emplace_back(label_of(record.group), record.kind, record.dtype, record.send_count);
      next_ = record.id + 1;
    }
    EXPECT_EQ(seen.size(), next_ - from) << "the recorder kept too few";
    std::ranges::sort(seen);
    return seen;
  }

 private:
  static constexpr std::size_t kept = 1 << 14;
  const std::shared_ptr<FlightRecorder> recorder_;
  std::uint64_t next_ = 0;
};

Seen sorted(const GroupCalls& groups) {
  Seen out;
  for (const auto& [label, calls] : groups) {
    for (const PredictedCall& call : calls) {
      out.emplace_back(label, call.kind, call.dtype, call.send_elements);
    }
  }
  std::ranges::sort(out);
  return out;
}

std::string print(const Seen& calls) {
  std::string out;
  for (const auto& [label, kind, dtype, elements] : calls) {
    out += fmt::format("{} {} {} {}\n", label, name(kind), name(dtype), elements);
  }
  return out;
}

std::string without(const Seen& left, const Seen& right) {
  Seen out;
  std::ranges::set_difference(left, right, std::back_inserter(out));
  return print(out);
}

void expect_predicted(const std::string& text, const PlanOptions& options) {
  SCOPED_TRACE(fmt::format("{}{}{}", text, options.native ? ", native" : "",
                           options.shape.tied ? ", tied" : ""));
  const Layout layout = parse_layout(text);
  ASSERT_EQ(problem(layout, options.shape, options.micro_batches, 0, options.stage_layers), "");
  on_thread_ranks(layout.world(), [&](Communicator& world) {
    const int rank = world.rank();
    Watch watch(rank);
    const auto comm =
        wrap(world.split(0, rank, "recorded", default_deadline(world)), {watch.recorder(), {}});
    Mesh mesh(*comm, layout);
    const auto plan = make_plan(mesh, options);
    watch.look();
    const GroupCalls predicted = predicted_step(layout, options, rows, rank, CommBackend::threads);
    for (int step = 0; step < 2; ++step) {
      const std::uint64_t before = plan->bytes_sent();
      play_step(*plan, options.shape, {.rows = rows});
      const Seen seen = watch.look();
      EXPECT_EQ(without(seen, sorted(predicted)), "") << "not predicted, rank " << rank;
      EXPECT_EQ(without(sorted(predicted), seen), "") << "not made, rank " << rank;
      EXPECT_EQ(plan->bytes_sent() - before, bytes_of(predicted)) << "rank " << rank;
    }
  });
}

void expect_predicted(const std::string& text, PlanOptions options, bool native, bool tied) {
  options.native = native;
  options.shape.tied = tied;
  expect_predicted(text, options);
}

void expect_predicted_both_ways(const std::string& text, const PlanOptions& options) {
  expect_predicted(text, options, false, true);
  expect_predicted(text, options, true, false);
}

TEST(StepCost, OneStageMakesThePredictedCallsAndBytes) {
  for (const char* layout :
       {"dp1", "dp1.zero3", "dp3.zero1", "dp2.zero2", "dp4.zero3", "dp4.zero1-shard2",
        "dp4.zero3-shard2", "tp2", "tp3.sp", "cp2-zigzag.zero1", "cp3", "cp2-ulysses.zero2",
        "dp2.tp2.zero1", "dp2.tp2.sp.cp2.zero3"}) {
    expect_predicted_both_ways(layout, options_of(4));
  }
  expect_predicted_both_ways("dp3", options_of(8));        // subtrees apart
  expect_predicted_both_ways("dp6.zero1", options_of(4));  // ranks without a micro-batch
  PlanOptions smoothed = options_of(4);
  smoothed.shape.label_smoothing = 0.1;
  expect_predicted("dp2.tp2.zero1", smoothed);
}

TEST(StepCost, StagesMakeThePredictedCallsAndBytes) {
  for (const char* layout :
       {"pp2", "pp3-gpipe", "pp2-int2", "dp3.pp2.zero1", "dp2.pp2-zb.zero2", "dp4.pp2.zero3-shard2",
        "tp2.sp.pp2-zb", "cp2.pp2-int2.zero1", "dp2.tp2.sp.pp2-zb.zero3"}) {
    expect_predicted_both_ways(layout, options_of(4, 4));
  }
  PlanOptions uneven = options_of(4, 4);
  uneven.stage_layers = {1, 3};
  expect_predicted_both_ways("pp2", uneven);
}

TEST(StepCost, TheHeadMayBeTiedOrNotInBothReductions) {
  for (const char* layout : {"dp2", "dp2.zero3", "dp2.pp2.zero1", "pp2-int2"}) {
    expect_predicted(layout, options_of(4, 4), false, false);
    expect_predicted(layout, options_of(4, 4), true, true);
  }
}

TEST(StepCost, GathersFollowThePrefetchAndTheResharding) {
  for (const char* layout : {"dp2.zero3", "dp2.pp2-int2.zero3", "dp2.pp2-zb.zero3"}) {
    for (const FlowOptions flow : {FlowOptions{0, 0, true}, FlowOptions{2, 1, true},
                                   FlowOptions{1, 3, true}, FlowOptions{1, 1, false}}) {
      PlanOptions options = options_of(4, 4);
      options.flow = flow;
      expect_predicted(layout, options, false, true);
    }
  }
  PlanOptions groups = options_of(4, 4);
  groups.unit_layers = 2;
  expect_predicted("dp2.zero3", groups, true, true);
}

std::uint64_t bytes_of(const char* layout, const char* label, bool native = false) {
  std::uint64_t sum = 0;
  PlanOptions options = options_of(4);
  options.native = native;
  auto calls = predicted_step(parse_layout(layout), options, rows, 0, CommBackend::threads);
  for (const PredictedCall& call : calls[label]) {
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
    expect_ring(bytes_of(dp("").c_str(), "buckets", true), 2 * once, 1);
    expect_ring(bytes_of(dp(".zero1").c_str(), "dp", true), once, 4);
    expect_ring(bytes_of(dp(".zero1").c_str(), "state", true), once, 4);
  }
}

}  // namespace
}  // namespace shardproof

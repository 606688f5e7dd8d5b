// ctest: unit
#include "parallel/schedule_simulator.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/expect_error.h"

#include "parallel/schedule_testing.h"

namespace shardproof {
namespace {

using enum ActionKind;

Simulation run(const Layout& layout, int micro_batches, const ActionCosts& costs = {}) {
  return simulate(all_stages(layout, first(micro_batches)), chunks_of(layout), costs);
}

// Whole numbers of time: sums are exact, the quotient is rounded once more than the formula's.
bool near(double a, double b) {
  return std::abs(a - b) < 1e-12;
}

TEST(ScheduleSimulator, TwoStagesByHand) {
  const Simulation of = run(pipeline(2, "1f1b"), 2);
  // stage 0: F0 0-1, F1 1-2, waits, B0 4-6, waits, B1 7-9; stage 1: F0 1-2, B0 2-4, F1 4-5, B1 5-7
  EXPECT_EQ(of.makespan, 9);
  EXPECT_EQ(of.stages[0].actions[2].begin, 4);
  EXPECT_EQ(of.stages[0].actions[3].begin, 7);
  EXPECT_EQ(of.stages[1].actions[3].end, 7);
  EXPECT_EQ(of.stages[0].busy, 6);
  EXPECT_DOUBLE_EQ(of.bubble(0), 1.0 / 3);
  EXPECT_EQ(of.stages[0].most_in_flight, 2);
  EXPECT_EQ(of.stages[1].most_in_flight, 1);
}

TEST(ScheduleSimulator, ZeroBubbleFillsTheGapsOfOneForwardOneBackward) {
  EXPECT_EQ(run(pipeline(4, "1f1b"), 8).makespan, 33);
  EXPECT_EQ(run(pipeline(4, "zb"), 8).makespan, 27) << "24 of work, 3 of bubble instead of 9";
}

TEST(ScheduleSimulator, ARankWithoutMicroBatchesIsNoFault) {
  const Simulation nothing = run(pipeline(3, "zb"), 0);
  EXPECT_EQ(nothing.makespan, 0);
  EXPECT_EQ(nothing.mean_bubble(), 0);
}

// ---- planted faults ----

TEST(ScheduleSimulator, ACircleIsRefusedAndPrinted) {
  auto stages = all_stages(pipeline(2, "1f1b"), first(3));
  // Stage 0 wants a gradient before it has sent the activation that the gradient comes from.
  std::swap(stages[0][1], stages[0][2]);  // F0 B0 F1 ... : legal, only slower
  EXPECT_NO_THROW(simulate(stages, 1));
  std::swap(stages[1][1], stages[1][2]);  // stage 1: F0 F1 B0: waits for F1, stage 0 for B0
  expect_error(ErrorKind::bad_input,
               {"pp2-mine", "circle", "stage 0 at B0 waits for the gradient 0 of stage 1",
                "stage 1 at F1 waits for the activation 1 of stage 0"},
               [&] { simulate(stages, 1, {}, "pp2-mine"); });
}

TEST(ScheduleSimulator, OnlyTheCircleIsPrintedNotWhoWaitsForIt) {
  auto stages = all_stages(pipeline(3, "1f1b"), first(3));
  stages[1] = {{forward, 0, 0},  {backward, 0, 0}, {forward, 1, 0},
               {backward, 1, 0}, {forward, 2, 0},  {backward, 2, 0}};
  stages[2] = {{forward, 0, 0},  {forward, 1, 0}, {backward, 0, 0},
               {backward, 1, 0}, {forward, 2, 0}, {backward, 2, 0}};
  const Error error = error_of([&] { simulate(stages, 1); });
  EXPECT_EQ(error.detail().find("stage 0 at"), std::string::npos) << error.what();
  EXPECT_NE(error.detail().find("stage 1 at B0 waits"), std::string::npos) << error.what();
}

TEST(ScheduleSimulator, AMissingActionIsNamed) {
  const auto without = [](const char* kind, int stage, std::size_t place) {
    auto stages = all_stages(pipeline(2, kind), first(4));
    auto& schedule = stages[static_cast<std::size_t>(stage)];
    schedule.erase(schedule.begin() + static_cast<std::ptrdiff_t>(place));
    return stages;
  };
  expect_error(ErrorKind::bad_input, {"stage 1: F3", "forward of micro-batch 3", "missing"}, [&] {
    auto stages = all_stages(pipeline(2, "1f1b"), first(4));
    std::erase_if(stages[1], [](const Action& a) { return a.micro_batch == 3; });
    simulate(stages, 1);
  });
  expect_error(ErrorKind::bad_input, {"stage 0: B3", "missing"},
               [&] { simulate(without("1f1b", 0, 7), 1); });
  expect_error(ErrorKind::bad_input, {"stage 1: W3", "gradient of the weights", "missing"},
               [&] { simulate(without("zb", 1, 11), 1); });
  expect_error(ErrorKind::bad_input, {"stage 0: F3.1", "missing"}, [&] {
    auto stages = all_stages(pipeline(2, "int2"), first(4));
    std::erase_if(stages[0], [](const Action& a) { return a.micro_batch == 3 && a.chunk == 1; });
    simulate(stages, 2);
  });
}

TEST(ScheduleSimulator, AnActionTwiceOrTooEarlyIsNamed) {
  const auto refuse = [](std::string_view part, const Schedule& schedule) {
    expect_error(ErrorKind::bad_input, {part}, [&] { simulate({schedule}, 1); });
  };
  refuse("F0 comes twice", {{forward, 0, 0}, {forward, 0, 0}});
  refuse("B0 comes before its forward", {{backward, 0, 0}, {forward, 0, 0}});
  refuse("W0 comes before the gradient of its input",
         {{forward, 0, 0}, {backward_weight, 0, 0}, {backward_input, 0, 0}});
  refuse("I0 is a second backward", {{forward, 0, 0}, {backward, 0, 0}, {backward_input, 0, 0}});
  refuse("expected one of 1 chunks", {{forward, 0, 1}});
}

// ---- the formulas ----

RC_GTEST_PROP(ScheduleSimulator, BubbleIsTheFormula, ()) {
  const int stages = *rc::gen::inRange(2, 9);
  const auto kind = *rc::gen::element<std::string>("gpipe", "1f1b", "int2", "int3", "int4");
  const Layout layout = pipeline(stages, kind);
  const int m =
      kind.starts_with("int") ? stages * *rc::gen::inRange(1, 5) : *rc::gen::inRange(1, 33);
  const ActionCosts costs{1.0 * *rc::gen::inRange(1, 5), 1.0 * *rc::gen::inRange(1, 5), 1.0};
  const Simulation of = run(layout, m, costs);
  for (int stage = 0; stage < stages; ++stage) {
    RC_ASSERT(near(of.bubble(stage), bubble_formula(layout, m, costs)));
  }
}

RC_GTEST_PROP(ScheduleSimulator, ZeroBubbleIsTheFormulaOnceEveryStageHasAMicroBatch, ()) {
  const int stages = *rc::gen::inRange(2, 9);
  const Layout layout = pipeline(stages, "zb");
  const int m = *rc::gen::inRange(stages, 33);
  const Simulation of = run(layout, m);
  for (int stage = 0; stage < stages; ++stage) {
    RC_ASSERT(near(of.bubble(stage), bubble_formula(layout, m)));
  }
  RC_ASSERT(of.makespan < run(pipeline(stages, "1f1b"), m).makespan);
}

RC_GTEST_PROP(ScheduleSimulator, ActivationsInFlightAreBounded, ()) {
  const int stages = *rc::gen::inRange(2, 9);
  const int m = *rc::gen::inRange(1, 33);
  const Simulation gpipe = run(pipeline(stages, "gpipe"), m);
  const Simulation fused = run(pipeline(stages, "1f1b"), m);
  const Simulation zero = run(pipeline(stages, "zb"), m);
  for (int stage = 0; stage < stages; ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    RC_ASSERT(gpipe.stages[s].most_in_flight == m);
    RC_ASSERT(fused.stages[s].most_in_flight == std::min(m, stages - stage));
    RC_ASSERT(zero.stages[s].most_in_flight == std::min(m, stages));
  }
}

RC_GTEST_PROP(ScheduleSimulator, RemovingAnyActionIsFound, ()) {
  const int stages = *rc::gen::inRange(2, 6);
  const auto kind = *rc::gen::element<std::string>("gpipe", "1f1b", "int2", "zb");
  const Layout layout = pipeline(stages, kind);
  auto schedules = all_stages(layout, first(2 * stages));
  auto& schedule = schedules[*rc::gen::inRange<std::size_t>(0, schedules.size())];
  schedule.erase(schedule.begin() + *rc::gen::inRange<std::ptrdiff_t>(0, std::ssize(schedule)));
  RC_ASSERT_THROWS_AS(simulate(schedules, chunks_of(layout)), Error);
}

}  // namespace
}  // namespace shardproof

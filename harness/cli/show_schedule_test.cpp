// ctest: unit
#include "harness/cli/show_schedule.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace shardproof {
namespace {

TEST(ShowSchedule, PrintsTheTimelineOfEveryStageAndTheBubbleBesideTheFormula) {
  EXPECT_EQ(show_schedule(parse_layout("pp2-zb"), 3).text,
            "pp2-zb: 3 micro-batches on 2 stages\n"
            "F forward, B backward (I gradient of the input, W of the weights); one column is one "
            "forward\n"
            "stage 0   F0 F1 .  I0 W0 F2 I1 W1 I2 W2\n"
            "stage 1   .  F0 I0 F1 I1 W0 F2 I2 W1 W2\n"
            "stage 0   bubble  10.0 %, at most 2 in flight\n"
            "stage 1   bubble  10.0 %, at most 2 in flight\n"
            "10 units, bubble 10.0 %; by the formula 10.0 %: (p-1)(f+i-w) / (m(f+i+w) + "
            "(p-1)(f+i-w)), from m = p on\n");
}

TEST(ShowSchedule, AFusedBackwardTakesTwoUnitsAndChunksAreNumbered) {
  EXPECT_NE(
      show_schedule(parse_layout("dp3.pp2-1f1b"), 1).text.find("stage 0   F0 .  .  .  B0 -\n"),
      std::string::npos);
  const ShownSchedule shown = show_schedule(parse_layout("pp2-int2"), 2);
  EXPECT_NE(shown.text.find("B0.1 -"), std::string::npos) << shown.text;
  EXPECT_EQ(shown.json["units"], 15);
  EXPECT_EQ(shown.json["stages"][1]["actions"][0],
            (Json{{"action", "F0"}, {"begin", 1.0}, {"end", 2.0}}));
  EXPECT_DOUBLE_EQ(shown.json["bubble"].get<double>(), shown.json["formula"].get<double>());
}

TEST(ShowSchedule, WhatHasNoScheduleIsRefused) {
  expect_error(ErrorKind::bad_input, {"layout dp1", "expected pp >= 2"},
               [] { show_schedule(parse_layout("dp4.zero1"), 4); });
  expect_error(ErrorKind::bad_input, {"pp4-int2", "a multiple of 4, such as 4 or 8"},
               [] { show_schedule(parse_layout("pp4-int2"), 6); });
  expect_error(ErrorKind::bad_input, {"expected at most 65536 to show"},
               [] { show_schedule(parse_layout("pp1000"), 1000); });
}

}  // namespace
}  // namespace shardproof

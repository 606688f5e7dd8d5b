// ctest: fault timeout=240 processors=2
// Elastic runs on thread ranks: whoever dies and wherever, the others go on and end with the bits
// of the run that nobody died in; and what is no death ends the run.
#include <algorithm>

#include "harness/elastic_testing.h"

namespace shardproof {
namespace {

void expect_outlived(const Config& config, const std::string& faults) {
  const ElasticEnd end = run_elastic(config, faults);
  const auto asked = static_cast<std::size_t>(std::count(faults.begin(), faults.end(), '!'));
  EXPECT_EQ(end.fired.size(), asked) << faults;
  expect_same_end(end, config, faults);
  EXPECT_TRUE(end.says("died: regroup ")) << faults << "\n" << end.said;
}

TEST(Elastic, AnUndisturbedRunIsTheSame) {
  const Config config = elastic_case("dp4.zero1", {"run.spares=2"});
  const ElasticEnd end = run_elastic(config);
  expect_same_end(end, config, "with two spares");
  EXPECT_FALSE(end.says("regroup")) << end.said;
}

TEST(Elastic, SurvivorsGoOnFromTheNewestCheckpoint) {
  const Config config = elastic_case("dp4.zero1");
  const ElasticEnd end = run_elastic(config, "step:2:5:backward!kill");
  expect_same_end(end, config, "rank 2");
  EXPECT_TRUE(end.says("rank 2 died: regroup 1 on dp3.zero1 from step-00000004: step 4 done "))
      << end.said;
}

TEST(Elastic, BeforeTheFirstSaveTheyBeginAnew) {
  const Config config = elastic_case("dp4.zero1");
  const ElasticEnd end = run_elastic(config, "step:0:1:backward!kill");
  expect_same_end(end, config, "rank 0");
  EXPECT_TRUE(end.says("rank 0 died: regroup 1 on dp3.zero1 from the beginning: step 0 done "))
      << end.said;
}

TEST(Elastic, WithoutAFolderOfCheckpointsTheyBeginAnew) {
  const Config config = elastic_case("dp2.tp2");
  ElasticEnd end;
  RunRequest request;
  request.config = config;
  request.config.checkpoint = {};
  request.faults = std::make_shared<FaultBoard>(parse_faults("step:3:6:forward!kill", "test"));
  keep_bits(request, end);
  run_on_threads(request);
  EXPECT_EQ(request.faults->fired().size(), 1u);
  EXPECT_TRUE(end.steps == undisturbed(config).steps);
}

// A few of the places that a run has, spread over all ranks.
TEST(Elastic, ADeathAnywhereIsOutlived) {
  for (const char* layout : {"dp4.zero1", "dp2.tp2.zero3"}) {
    const Config config = elastic_case(layout, {"training.steps=4"});
    const std::vector<std::string> places = places_of(config);
    ASSERT_GT(places.size(), 1000u) << layout;
    const std::size_t runs = 12;
    for (std::size_t i = 0; i < runs; ++i) {
      expect_outlived(config, places[i * places.size() / runs + i % 7] + "!kill");
    }
  }
}

TEST(Elastic, ATornSaveIsNotUsed) {
  for (const char* background : {"true", "false"}) {
    const Config config =
        elastic_case("dp4.zero1", {std::string("checkpoint.background=") + background});
    for (const char* place : {"file:0:6:torn", "file:0:6:before", "file:3:3:torn"}) {
      expect_outlived(config, std::string(place) + "!kill");
    }
  }
}

TEST(Elastic, ADeathWhileRanksRegroupBeginsTheRegroupAgain) {
  const Config config = elastic_case("dp4.zero1");
  const std::string first = "step:2:5:backward!kill;";
  for (const char* second : {"call:0:regroup~1:0:before!kill", "call:3:regroup~1:0:after!kill",
                             "call:0:world~1:1:inside!kill", "call:1:world~1:4:before!kill",
                             "call:3:world~1/dp.0:0:after!kill"}) {
    expect_outlived(config, first + second);
  }
  const ElasticEnd end = run_elastic(config, first + "step:1:6:forward!kill;step:3:7:forward!kill");
  expect_same_end(end, config, "one rank is left");
  EXPECT_TRUE(end.says("rank 1 died: regroup 2 on dp2.zero1 from step-00000006")) << end.said;
  EXPECT_TRUE(end.says("rank 3 died: regroup 3 on dp1.zero1 from step-00000006")) << end.said;
}

TEST(Elastic, AllButOneMayDieAtOnce) {
  const Config config = elastic_case("dp2.tp2");
  expect_outlived(config, "step:0:5:forward!kill;step:1:5:forward!kill;step:2:5:backward!kill");
}

TEST(Elastic, ASpareJoinsBehindTheNextSave) {
  const Config config = elastic_case("dp4.zero1", {"run.spares=1", "training.steps=10"});
  const ElasticEnd end = run_elastic(config, "step:2:3:backward!kill");
  expect_same_end(end, config, "4 to 3 to 4");
  EXPECT_TRUE(end.says("rank 2 died: regroup 1 on dp3.zero1 from step-00000002: step 2 done "));
  EXPECT_TRUE(end.says("more ranks join: regroup 2 on dp4.zero1 from step-00000004: step 4 done "))
      << end.said;
}

TEST(Elastic, WithoutACheckpointASpareTakesThePlaceAtOnce) {
  const Config config = elastic_case("dp4.zero1", {"run.spares=1"});
  const ElasticEnd end = run_elastic(config, "step:1:0:forward!kill");
  expect_same_end(end, config, "4 to 4");
  EXPECT_TRUE(end.says("rank 1 died: regroup 1 on dp4.zero1 from the beginning")) << end.said;
}

TEST(Elastic, ASpareMayDieAndOneThatIsReadyTakesAPlaceAtOnce) {
  const Config config = elastic_case("dp4.zero1", {"run.spares=2"});
  const ElasticEnd dead =
      run_elastic(config, "step:2:3:backward!kill;call:4:regroup~1:0:before!kill");
  expect_same_end(dead, config, "a spare that is called dies");
  EXPECT_TRUE(dead.says("ranks 2, 4 died: regroup 2 on dp4.zero1")) << dead.said;
  const ElasticEnd again = run_elastic(config, "step:2:3:backward!kill;step:0:5:forward!kill");
  expect_same_end(again, config, "another worker dies");
  EXPECT_TRUE(again.says("more ranks join: regroup 2 on dp4.zero1 from step-00000004"))
      << again.said;
  EXPECT_TRUE(again.says("rank 0 died: regroup 3 on dp4.zero1 from step-00000004")) << again.said;
}

TEST(Elastic, ARankWithoutAPlaceWaitsForTheNextDeath) {
  const Config config = elastic_case("dp4.zero2");  // dp divides the 12 micro-batches: 3 does
  const Config odd = elastic_case("dp2.tp2");       // of 3 ranks tp2 needs two
  expect_outlived(config, "step:3:5:backward!kill");
  const ElasticEnd end = run_elastic(odd, "step:0:3:forward!kill;step:1:5:forward!kill");
  expect_same_end(end, odd, "the place of the second is taken by the one who waited");
  EXPECT_TRUE(end.says("rank 0 died: regroup 1 on tp2")) << end.said;
  EXPECT_TRUE(end.says("rank 1 died: regroup 2 on tp2")) << end.said;
}

TEST(Elastic, WithoutALegalLayoutTheRunEndsAndSaysSo) {
  const Config config = elastic_case("dp4.zero1", {"training.accumulation=3"});
  const ElasticEnd end = run_elastic(config, "step:2:5:backward!kill");
  EXPECT_EQ(end.kind, ErrorKind::peer_died) << end.error;
  EXPECT_NE(end.error.find("rank 2 died; found no legal layout for the 3 ranks left; expected one "
                           "smaller than dp4.zero1"),
            std::string::npos)
      << end.error;
}

TEST(Elastic, WhatIsNoDeathEndsTheRun) {
  const Config config = elastic_case("dp4.zero1", {"run.spares=1"});
  ElasticEnd end = run_elastic(config, "step:1:3:forward!nan");
  EXPECT_EQ(end.kind, ErrorKind::numeric) << end.error;
  EXPECT_FALSE(end.says("regroup")) << end.said;
  end = run_elastic(config, "call:1:world/dp.0:9:before!dtype");
  EXPECT_EQ(end.kind, ErrorKind::mismatch) << end.error;
  end = run_elastic(config, "file:1:2:before!io_error");
  EXPECT_EQ(end.kind, ErrorKind::io) << end.error;
  end = run_elastic(config, "step:2:5:backward!kill;step:0:6:forward!nan");
  EXPECT_EQ(end.kind, ErrorKind::numeric) << "after a regroup: " << end.error;
}

TEST(Elastic, ARankThatStandsStillEndsTheRunAtItsDeadline) {
  const Config config = elastic_case("dp4.zero1", {"run.spares=1", "run.deadline=2"});
  const ElasticEnd end = run_elastic(config, "step:2:5:backward!stop");
  EXPECT_EQ(end.kind, ErrorKind::timeout) << end.error;
  EXPECT_FALSE(end.says("regroup")) << end.said;
}

TEST(Elastic, ADamagedCheckpointIsPassedBy) {
  const Config config = elastic_case("dp4.zero1");
  const ElasticEnd end =
      run_elastic(config, "file:0:link.1:after!corrupt_shard;step:2:5:backward!kill");
  expect_same_end(end, config, "the one before it is whole");
  EXPECT_TRUE(end.says("checkpoint step-00000004 is damaged")) << end.said;
  EXPECT_TRUE(end.says("from step-00000002")) << end.said;
}

// What the comparison is worth: another bit in a parameter after the regroup is seen.
TEST(Elastic, AnotherStateAfterARegroupIsSeen) {
  const Config config = elastic_case("dp4.zero1");
  const ElasticEnd end =
      run_elastic(config, "step:2:5:backward!kill;step:0:6:forward!flip_parameter=0");
  EXPECT_EQ(end.fired.size(), 2u);
  EXPECT_NE(end.state, undisturbed(config).state);
}

}  // namespace
}  // namespace shardproof

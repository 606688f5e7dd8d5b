// ctest: fault timeout=7200 processors=2 nightly
// 200 seeds of one to three drawn faults over 30 steps, and the whole campaign of a small Case.
#include "harness/chaos_testing.h"

namespace shardproof {
namespace {

TEST(ChaosNightly, TwoHundredSeeds) {
  expect_order("dp2.zero1", 30, 1, 200);
}

TEST(CampaignNightly, EveryPointAndKindOfTheDefaultCaseHasAVerdict) {
  CampaignOptions options;
  Config config;
  config.training.steps = 2;
  config.checkpoint.every = 1;
  options.config = with_fault_defaults(config);
  options.ended = [](const FaultScenario& scenario, const FaultResult& result) {
    EXPECT_TRUE(result.pass) << text(scenario.faults) << ": " << result.why;
  };
  const CampaignReport report = run_campaign(options);
  EXPECT_EQ(report.left, 0);
  EXPECT_EQ(report.failed, 0) << campaign_table(report);
  std::puts(campaign_table(report).c_str());
}

}  // namespace
}  // namespace shardproof

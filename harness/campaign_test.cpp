// ctest: fault timeout=120 processors=2
// A campaign over all kinds, cut short by a budget of scenarios; its list and its table.
#include "harness/campaign.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "faults/inject/fault_draw.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

Config tiny() {
  Config config = small_case("dp2.zero1", 2);
  config.training.global_batch = 8;
  config.checkpoint.every = 1;
  return with_fault_defaults(config);
}

TEST(Campaign, ADiscoveryFindsCallsFilesPhasesAndStartsOfEveryRank) {
  FaultRunner runner(20);
  std::set<std::pair<PointKind, int>> found;
  std::set<std::string> texts;
  for (const PassedPoint& passed : runner.discover(tiny())) {
    found.insert({passed.point.kind, passed.point.rank});
    EXPECT_TRUE(texts.insert(passed.point.text()).second) << passed.point.text() << " twice";
  }
  EXPECT_EQ(found.size(), 8U) << "four kinds of points on two ranks";
}

TEST(Campaign, EveryKindThatThreadsSimulateHasAPoint) {
  FaultRunner runner(20);
  std::set<FaultKind> kinds;
  for (const Fault& fault : campaign_faults(runner.discover(tiny()), {})) {
    EXPECT_EQ(misfit(fault.kind, fault.point), "") << fault.text();
    kinds.insert(fault.kind);
  }
  // exit is as kill here; messages have tags and trees have roots on other layouts; the rest is of
  // a run that resumes.
  const std::set<FaultKind> without{FaultKind::exit,          FaultKind::tag,
                                    FaultKind::root,          FaultKind::other_cursor,
                                    FaultKind::other_mixture, FaultKind::other_tokenizer};
  for (const KindInfo& of : fault_kinds()) {
    EXPECT_NE(kinds.contains(of.kind), without.contains(of.kind)) << of.name;
  }
}

TEST(Campaign, PartsAreTheWhole) {
  const auto ran = [](int part, int parts) {
    std::vector<std::string> out;
    CampaignOptions options;
    options.config = tiny();
    options.kinds = {FaultKind::other_config, FaultKind::missing_shard, FaultKind::nan};
    options.part = part;
    options.parts = parts;
    options.ended = [&](const FaultScenario& scenario, const FaultResult& result) {
      EXPECT_TRUE(result.pass) << result.why;
      out.push_back(text(scenario.faults));
    };
    EXPECT_EQ(run_campaign(options).failed, 0);
    return out;
  };
  std::vector<std::string> whole = ran(1, 1), parts = ran(1, 2);
  ASSERT_GT(whole.size(), parts.size());
  ASSERT_FALSE(parts.empty());
  for (const std::string& each : ran(2, 2)) parts.push_back(each);
  std::sort(whole.begin(), whole.end());
  std::sort(parts.begin(), parts.end());
  EXPECT_EQ(parts, whole);
}

TEST(Campaign, TheSameSeedDrawsTheSameOrder) {
  const auto ran = [](std::uint64_t seed) {
    std::vector<std::string> out;
    std::atomic<bool> stop = false;
    CampaignOptions options;
    options.config = tiny();
    options.kinds = {FaultKind::other_config, FaultKind::missing_shard};
    options.budget_seconds = 3600;
    options.seed = seed;
    options.stop = &stop;
    options.ended = [&](const FaultScenario& scenario, const FaultResult& result) {
      EXPECT_TRUE(result.pass) << result.why;
      out.push_back(text(scenario.faults));
      stop = out.size() == 3;
    };
    const CampaignReport report = run_campaign(options);
    EXPECT_EQ(report.failed, 0);
    EXPECT_GT(report.left, 0);
    return out;
  };
  const auto first = ran(7);
  EXPECT_EQ(first, ran(7));
  EXPECT_NE(first, ran(8));
}

TEST(Campaign, AFailureIsCountedAndShown) {
  CampaignOptions options;
  options.config = tiny();
  options.kinds = {FaultKind::other_world};
  options.hang_seconds = 1e-9;  // everything is too slow
  const CampaignReport report = run_campaign(options);
  EXPECT_EQ(report.failed, 2);
  EXPECT_EQ(report.kinds.at(FaultKind::other_world).outcomes.at(FaultOutcome::hung), 2);
  EXPECT_NE(campaign_table(report).find("other_world"), std::string::npos);
}

}  // namespace
}  // namespace shardproof

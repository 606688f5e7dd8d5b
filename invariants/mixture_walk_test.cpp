// ctest: invariant
#include "invariants/mixture_walk.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "data/loader.h"
#include "data/mixture.h"
#include "invariants/trace_checks.h"

namespace shardproof {
namespace {

using Ids = std::vector<std::int64_t>;

// What a mixture takes, computed apart from the loader: plain orders, each source's own.
class Mixed {
 public:
  Mixed(std::vector<std::int64_t> sizes, std::vector<double> weights)
      : sizes_(std::move(sizes)), weights_(std::move(weights)) {}

  std::vector<SourceFact> facts() const {
    std::vector<SourceFact> out;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
      out.push_back({std::string(1, "abcd"[i]), first, sizes_[i], weights_[i]});
      first += sizes_[i];
    }
    return out;
  }

  std::vector<Ids> steps(int count, int batch) const {
    const Mixture mixture(weights_, 9);
    const auto sources = facts();
    std::vector<Ids> out(static_cast<std::size_t>(count));
    for (std::int64_t p = 0; p < std::int64_t{count} * batch; ++p) {
      const auto draw = mixture.at(p);
      const SourceFact& source = sources[static_cast<std::size_t>(draw.source)];
      const auto order = epoch_order(source.size, 5, draw.index / source.size);
      out[static_cast<std::size_t>(p / batch)].push_back(
          source.first + order[static_cast<std::size_t>(draw.index % source.size)]);
    }
    return out;
  }

 private:
  std::vector<std::int64_t> sizes_;
  std::vector<double> weights_;
};

std::string walk(const std::vector<SourceFact>& facts, const std::vector<Ids>& steps,
                 bool midway = false) {
  MixtureWalk walk(facts, midway);
  for (const Ids& ids : steps) {
    if (std::string problem = walk.step(ids); !problem.empty()) return problem;
  }
  return walk.open();
}

Mixed any_mixture() {
  const auto count = *rc::gen::inRange<std::size_t>(1, 5);
  std::vector<std::int64_t> sizes(count);
  std::vector<double> weights(count);
  for (auto& size : sizes) size = *rc::gen::inRange<std::int64_t>(1, 30);
  for (auto& weight : weights) weight = *rc::gen::inRange(0, 9);
  weights.back() = 3;
  return {sizes, weights};
}

RC_GTEST_PROP(MixtureWalk, PassesWhatAMixtureTakesInAnyOrderOfAStep, ()) {
  const Mixed mixed = any_mixture();
  auto steps = mixed.steps(*rc::gen::inRange(1, 30), *rc::gen::inRange(1, 20));
  for (Ids& ids : steps) std::sort(ids.begin(), ids.end());
  RC_ASSERT(walk(mixed.facts(), steps) == "");
}

// One sample in place of another of its source.
RC_GTEST_PROP(MixtureWalk, FailsOnASampleTakenTwice, ()) {
  const Mixed mixed({7, 12, 5}, {3, 5, 2});
  auto steps = mixed.steps(30, 8);
  const auto facts = mixed.facts();
  Ids& ids = steps[*rc::gen::inRange<std::size_t>(0, 20)];
  std::int64_t& id = ids[*rc::gen::inRange<std::size_t>(0, ids.size())];
  const std::size_t at = id < 7 ? 0 : id < 19 ? 1 : 2;
  const std::int64_t other =
      facts[at].first +
      (id - facts[at].first + *rc::gen::inRange<std::int64_t>(1, facts[at].size)) % facts[at].size;
  id = other;
  RC_ASSERT(walk(facts, steps) != "");
}

TEST(MixtureWalk, FailsOnASourceThatBeginsAnew) {
  const Mixed mixed({40, 24}, {1, 1});
  const auto steps = mixed.steps(10, 8);
  std::vector<Ids> restarted(steps.begin(), steps.begin() + 4);
  const auto again = mixed.steps(6, 8);
  restarted.insert(restarted.end(), again.begin(), again.end());
  EXPECT_NE(walk(mixed.facts(), restarted).find("again while"), std::string::npos)
      << walk(mixed.facts(), restarted);
}

TEST(MixtureWalk, FailsOnOtherWeights) {
  const Mixed mixed({400, 240}, {7, 3});
  auto facts = mixed.facts();
  EXPECT_EQ(walk(facts, mixed.steps(12, 8)), "");
  facts[0].weight = 6;
  facts[1].weight = 4;
  EXPECT_NE(walk(facts, mixed.steps(12, 8)).find("from source a, whose weight gives"),
            std::string::npos);
}

TEST(MixtureWalk, FailsOnASourceOfWeightZeroAndOnForeignIds) {
  const std::vector<SourceFact> facts{{"a", 0, 50, 1}, {"b", 50, 9, 1}, {"c", 59, 9, 0}};
  EXPECT_EQ(walk(facts, {{0, 50, 1, 51}}), "");
  EXPECT_NE(walk(facts, {{0, 50, 1, 59}}).find("from source c"), std::string::npos);
  EXPECT_NE(walk(facts, {{0, 50, 1, 68}}).find("sample 68 does not exist"), std::string::npos);
  EXPECT_NE(walk(facts, {{0, 50, 1, -1}}).find("sample -1 does not exist"), std::string::npos);
}

TEST(MixtureWalk, AnEpochThatEndsInAStepLeavesNoSampleOut) {
  const std::vector<SourceFact> facts{{"a", 0, 3, 1}};
  EXPECT_EQ(walk(facts, {{2, 0}, {1, 1}, {0, 2, 2, 0, 1}}), "");
  EXPECT_NE(walk(facts, {{2, 0}, {2, 0}}).find("without sample 1"), std::string::npos);
  EXPECT_NE(walk(facts, {{2, 0, 1, 1, 1}}).find("takes sample 1 of source a"), std::string::npos);
}

TEST(MixtureWalk, ATraceThatBeginsInsideAnEpochIsOpenWhereTheEpochEnds) {
  const Mixed mixed({10, 6}, {1, 1});
  const auto steps = mixed.steps(20, 4);
  const std::vector<Ids> few(steps.begin() + 1, steps.begin() + 2);
  const std::vector<Ids> many(steps.begin() + 1, steps.end());
  EXPECT_EQ(walk(mixed.facts(), few, true), "");
  EXPECT_NE(walk(mixed.facts(), many, true).find("begins inside an epoch"), std::string::npos);
}

TEST(MixtureWalk, ARemixKeepsPlacesAndCountsSharesAnew) {
  const std::vector<SourceFact> before{{"a", 0, 8, 1}, {"b", 8, 8, 1}};
  const std::vector<SourceFact> after{{"a", 0, 8, 3}, {"b", 8, 8, 1}, {"c", 16, 4, 0}};
  const auto judged = [&](const Ids& ids) {
    MixtureWalk walk(before, false);
    EXPECT_EQ(walk.step({0, 8, 1, 9}), "");
    EXPECT_EQ(walk.remix(after), "");
    return walk.step(ids);
  };
  EXPECT_EQ(judged({2, 3, 4, 10}), "");
  EXPECT_NE(judged({2, 3, 0, 10}).find("sample 0 of source a again"), std::string::npos);
  EXPECT_NE(judged({10, 11, 12, 13}).find("from source a"), std::string::npos);
  MixtureWalk walk(before, false);
  EXPECT_NE(walk.remix({{"b", 0, 8, 1}, {"a", 8, 8, 1}}).find("source a of 8 samples is not where"),
            std::string::npos);
}

// check_data over traces of two data ranks.
Trace traced(const std::vector<SourceFact>& sources, const std::vector<Ids>& steps,
             std::int64_t first = 0) {
  Trace trace;
  for (int r = 0; r < 2; ++r) {
    RankTrace rank;
    rank.rank = r;
    rank.world = 2;
    rank.run["config"] = Json{{"training", {{"global_batch", 8}}}, {"data", {{"last", "drop"}}}};
    for (const SourceFact& each : sources) {
      rank.run["data"]["sources"].push_back({{"name", each.name},
                                             {"first", each.first},
                                             {"size", each.size},
                                             {"weight", each.weight}});
    }
    rank.run["data"]["size"] = 1000;
    for (std::size_t s = 0; s < steps.size(); ++s) {
      StepRecord record;
      record.step = first + static_cast<std::int64_t>(s);
      const auto half = steps[s].begin() + static_cast<std::ptrdiff_t>(steps[s].size() / 2);
      record.samples = r == 0 ? Ids(steps[s].begin(), half) : Ids(half, steps[s].end());
      rank.steps.push_back(record);
    }
    trace.ranks.push_back(rank);
  }
  return trace;
}

TEST(MixtureWalk, TheDataCheckJudgesAResumedRunBehindTheStepsBeforeIt) {
  const Mixed mixed({20, 12}, {3, 1});
  const auto steps = mixed.steps(12, 8);
  const auto facts = mixed.facts();
  const Trace uncut = traced(facts, steps);
  const Verdict whole = check_data(uncut);
  EXPECT_EQ(whole.outcome, Outcome::pass) << whole.reason;
  const Trace resumed = traced(facts, {steps.begin() + 5, steps.end()}, 5);
  const Verdict behind = check_data(resumed, &uncut);
  EXPECT_EQ(behind.outcome, Outcome::pass) << behind.reason;
  EXPECT_EQ(check_data(resumed).outcome, Outcome::inconclusive);
  const Trace restarted = traced(facts, {steps.begin(), steps.begin() + 7}, 5);
  const Verdict anew = check_data(restarted, &uncut);
  EXPECT_EQ(anew.outcome, Outcome::fail);
  EXPECT_NE(anew.reason.find("step 5"), std::string::npos) << anew.reason;
  const Trace short_batch = traced(facts, {{0, 1, 2, 20, 3, 4, 5}});
  EXPECT_NE(check_data(short_batch).reason.find("took 7 samples, training.global_batch is 8"),
            std::string::npos);
}

TEST(MixtureWalk, ARemixedRunIsJudgedByItsOwnWeightsFromThereOn) {
  const auto before = Mixed({60, 60}, {3, 1}).facts();
  auto after = before;
  after[0].weight = after[1].weight = 1;
  const Trace uncut = traced(before, {{0, 1, 2, 60, 3, 4, 5, 61}, {6, 7, 8, 62, 9, 10, 11, 63}});
  const Trace remixed = traced(after, {{12, 64, 13, 65, 14, 66, 15, 67}}, 2);
  const Verdict told = check_data(remixed, &uncut);
  EXPECT_EQ(told.outcome, Outcome::pass) << told.reason;
  const Trace untold = traced(before, {{12, 64, 13, 65, 14, 66, 15, 67}}, 2);
  EXPECT_EQ(check_data(untold, &uncut).outcome, Outcome::fail);
}

TEST(MixtureWalk, WhatIsNoMixtureIsNotJudgedAsOne) {
  std::vector<SourceFact> facts{{"a", 0, 5, 1}, {"b", 6, 5, 1}};
  EXPECT_EQ(check_data(traced(facts, {{0, 1}})).outcome, Outcome::inconclusive);
  facts = {{"a", 0, 5, -1}};
  EXPECT_EQ(check_data(traced(facts, {{0, 1}})).outcome, Outcome::inconclusive);
  Trace trace = traced({}, {{0, 1, 2, 3, 4, 5, 6, 7}});
  trace.ranks[0].run["data"]["sources"] = Json{"a"};
  EXPECT_EQ(check_data(trace).outcome, Outcome::inconclusive);
}

}  // namespace
}  // namespace shardproof

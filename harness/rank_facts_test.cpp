// ctest: unit
#include "harness/rank_facts.h"

#include <gtest/gtest.h>

#include <map>

#include "train/config_fields.h"

namespace shardproof {
namespace {

// The names of the facts that differ.
std::vector<std::string> differing(const RunRequest& a, const RunRequest& b) {
  std::map<std::string, std::string> values;
  std::vector<std::string> names;
  for (const Fact& fact : request_facts(a)) values[fact.name] = fact.value;
  for (const Fact& fact : request_facts(b)) {
    if (values.at(fact.name) != fact.value) names.push_back(fact.name);
  }
  return names;
}

// Another value than `field` has.
struct Change {
  void operator()(int* value) const { *value += 1; }
  void operator()(double* value) const { *value += 1; }
  void operator()(bool* value) const { *value = !*value; }
  void operator()(std::string* value) const { *value = "0:0:forward:kill"; }
  template <typename Item>
  void operator()(std::vector<Item>* value) const {
    value->emplace_back();
  }
};

TEST(RankFacts, EveryKeyOfTheConfigIsOneButThoseThatMayDiffer) {
  const RunRequest plain;
  Config names;
  for (std::size_t i = 0; i < fields(names).size(); ++i) {
    RunRequest changed;
    const Field field = fields(changed.config)[i];
    std::visit(Change{}, field.member);
    const std::string name = field.name();
    std::vector<std::string> expected{name};
    if (name == "data.path" || name == "data.workers") expected.clear();
    if (name == "run.fault") expected = {"fault", name};
    EXPECT_EQ(differing(plain, changed), expected) << name;
  }
}

TEST(RankFacts, HowARunGoesOnIsOne) {
  RunRequest plain, other;
  plain.resume = other.resume = "step-00000002";
  other.fallback = true;
  EXPECT_EQ(differing(plain, other), std::vector<std::string>{"--fallback"});
  other = plain;
  other.new_case_from = "ckpt";
  EXPECT_EQ(differing(plain, other), std::vector<std::string>{"--new-case"});
}

TEST(RankFacts, ASourceMayLieElsewhereOnAnotherMachine) {
  RunRequest here;
  here.config.data.sources = {{"a", 1, "text", "/here/a.txt", 4096}};
  RunRequest there = here, other = here;
  there.config.data.sources[0].path = "/there/a.txt";
  other.config.data.sources[0].weight = 2;
  EXPECT_TRUE(differing(here, there).empty());
  EXPECT_EQ(differing(here, other), std::vector<std::string>{"data.sources"});
}

TEST(RankFacts, SoIsWhatDecidesHowManyCollectivesRun) {
  const RunRequest plain;
  RunRequest resumed, metrics, metrics_folder, traced, faulty;
  resumed.resume = "step-00000010";
  metrics.metrics_file = "m.jsonl";
  metrics_folder.metrics_directory = "m";
  traced.trace.directory = "t";
  faulty.trace.fault = parse_trace_fault("0:0:forward:delay=1");
  using Names = std::vector<std::string>;
  EXPECT_EQ(differing(plain, resumed), Names{"checkpoint to resume"});
  EXPECT_EQ(differing(plain, metrics), Names{"--metrics"});
  EXPECT_EQ(differing(plain, metrics_folder), Names{"--metrics"});
  EXPECT_EQ(differing(plain, traced), Names{"--trace"});
  EXPECT_EQ(differing(plain, faulty), Names{"fault"});
}

}  // namespace
}  // namespace shardproof

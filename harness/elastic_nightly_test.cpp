// ctest: fault timeout=7200 processors=2 nightly
// Every place of a run, of every rank: the others go on and end with the same bits; and drawn pairs
// of places, of which the second may lie in the regroup.
#include <algorithm>
#include <random>

#include "harness/elastic_testing.h"

namespace shardproof {
namespace {

class EveryPlace : public testing::TestWithParam<const char*> {};

TEST_P(EveryPlace, OfEveryRankIsOutlived) {
  const Config config =
      elastic_case(GetParam(), {"training.steps=2", "checkpoint.every=1", "model.layers=2"});
  for (const std::string& place : places_of(config)) {
    const ElasticEnd end = run_elastic(config, place + "!kill");
    EXPECT_EQ(end.fired.size(), 1u) << place;
    expect_same_end(end, config, place);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, EveryPlace,
                         testing::Values("dp3.zero1", "dp2.zero3", "pp2", "tp2.sp"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '.', '_');
                           return name;
                         });

TEST(ElasticNightly, DrawnPairs) {
  constexpr int pairs = 300;
  const Config config = elastic_case("dp2.tp2.zero1", {"training.steps=4", "run.spares=1"});
  const std::vector<std::string> places = places_of(config);
  std::mt19937 draw(6);
  for (int i = 0; i < pairs; ++i) {
    std::string second = places[draw() % places.size()];
    const std::size_t group = second.find(":world");
    if (group != second.npos && i % 3 != 0) second.insert(group + 6, "~1");
    const std::string faults = places[draw() % places.size()] + "!kill;" + second + "!kill";
    const ElasticEnd end = run_elastic(config, faults);
    EXPECT_GE(end.fired.size(), 1u) << faults;
    expect_same_end(end, config, faults);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace shardproof

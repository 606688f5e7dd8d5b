// ctest: invariant timeout=600 processors=2
// The layout law: the whole table of layouts on thread ranks, 5 steps each, by the command; and
// what the command refuses. All of its steps: layouts_nightly_test.cpp.
#include "harness/layouts_testing.h"

namespace shardproof {
namespace {

using testing_support::expect_equal_rows;

ChildResult layouts(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {SHARDPROOF_COMMAND, "layouts"});
  return run_child(arguments, std::chrono::seconds(60));
}

TEST(Layouts, EveryRowOfTheTablePassesByItsRule) {
  const Json rows =
      expect_equal_rows({"--backend", "threads", "--steps", "5"}, std::chrono::seconds(440));
  EXPECT_EQ(rows.size(), layout_list().size());
  int native = 0;
  for (const Json& row : rows) {
    EXPECT_EQ(row.at("steps"), 5);
    const bool by_error =
        row.at("run").get<std::string>().find("reduction=native") != std::string::npos;
    const std::string rule = by_error ? "native layout" : "bits of one rank";
    EXPECT_EQ(row.at("rule"), rule);
    EXPECT_EQ(row.at("verdict").at("check"), by_error ? "native layout" : "layout");
    native += by_error;
  }
  EXPECT_GT(native, 10);
}

TEST(Layouts, BadInputIsRefusedBeforeAnythingRuns) {
  const struct {
    std::vector<std::string> arguments;
    const char* says;
  } cases[] = {
      {{"tp8"}, "tp 8 needs a tensor piece on every rank"},
      {{"dp2.zero9"}, "zero"},
      {{"--set", "run.layout=dp2"}, "set for every row"},
      {{"--set", "training.steps=4"}, "--steps"},
      {{"--set", "model.heads=5"}, "heads"},
      {{"--set", "model.nothing=1"}, "model.nothing"},
      {{"--steps", "1"}, "--steps"},
      {{"--backend", "gpu"}, "--backend"},
      {{"--long", "--max-ranks", "1"}, "no row to run"},
      {{"dp2", "--all"}, "--all"},
      {{"dp2", "--steps", "2", "--out", "/"}, "exists already"},
  };
  for (const auto& each : cases) {
    const ChildResult child = layouts(each.arguments);
    EXPECT_EQ(child.exit_code, 2) << child.output;
    EXPECT_NE(child.output.find(each.says), std::string::npos) << child.output;
    EXPECT_EQ(child.output.find(" pass "), std::string::npos) << child.output;
  }
}

// Keys of the Case that make rows illegal leave them out, and say so. No guard is needed.
TEST(Layouts, LeavesOutWhatIsNotLegal) {
  const ChildResult child =
      layouts({"--case", "odd", "--max-ranks", "3", "--steps", "2", "--backend", "threads", "--set",
               "model.layers=2", "--set", "guard.verify=false", "--set", "guard.watch=false"});
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_NE(child.output.find("left out"), std::string::npos) << child.output;
  EXPECT_NE(child.output.find("pp 3 needs a layer on each of 3 stages"), std::string::npos);
}

TEST(Layouts, AllOfATinyCase) {
  const Json rows =
      expect_equal_rows({"--all", "--case", "shallow", "--max-ranks", "2", "--steps", "2"},
                        std::chrono::seconds(150));
  std::set<std::string> names;
  for (const Json& row : rows) names.insert(row.at("layout").get<std::string>());
  EXPECT_EQ(names.size(), rows.size());
  EXPECT_TRUE(names.contains("pp2-zb.zero3") && names.contains("cp2-zigzag.zero2"));
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/temp_folder.h"
#include "data/loader.h"
#include "harness/child.h"
#include "harness/cli/cli.h"

namespace shardproof {
namespace {

struct Shown {
  int exit_code = -1;
  std::string output;
};

// The verb in this process, as main calls it: a new process for each would take half a second.
Shown show(std::vector<std::string> arguments) {
  CLI::App app("test", "shardproof");
  Shown shown;
  add_show(app, shown.exit_code);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
  arguments.push_back("show");
  testing::internal::CaptureStdout();
  std::ostringstream text;
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    shown.exit_code = app.exit(error, text, text) == 0 ? 0 : 2;
  } catch (const Error& error) {
    text << error.what();
    shown.exit_code = exit_code(error.kind());
  }
  shown.output = testing::internal::GetCapturedStdout() + text.str();
  return shown;
}

void expect_refusal(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& parts) {
  const Shown result = show(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.output;
  for (const std::string& part : parts) {
    EXPECT_NE(result.output.find(part), result.output.npos) << result.output << " lacks " << part;
  }
}

TEST(Show, LayoutPrintsTheGroupsOfEveryAxis) {
  const Shown result = show({"layout", "dp2.tp2.pp2"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("dp2.tp2.pp2: 8 ranks\n"
                               "tp   2  [0 1] [2 3] [4 5] [6 7]\n"),
            result.output.npos)
      << result.output;
  EXPECT_NE(result.output.find("can be trained: yes"), result.output.npos) << result.output;
  const Shown refused = show({"layout", "dp2.ep2"});
  EXPECT_NE(refused.output.find("can be trained: no: layout dp2.ep2: expert parallelism"),
            refused.output.npos);
}

TEST(Show, LayoutIsJudgedForTheConfigThatIsGiven) {
  const auto says = [](std::vector<std::string> arguments, const char* text) {
    arguments.insert(arguments.begin(), "layout");
    const Shown shown = show(arguments);
    EXPECT_EQ(shown.exit_code, 0) << shown.output;
    EXPECT_NE(shown.output.find(text), shown.output.npos) << shown.output;
  };
  says({"tp4"}, "can be trained: no: layout tp4: tp 4 needs a tensor piece");
  says({"tp4", "--set", "numerics.tensor_pieces=4"}, "can be trained: yes");
  const TempFolder folder;
  folder.write("case.toml", "[numerics]\ntensor_pieces = 4\n[run]\nlayout = \"dp3\"\n");
  says({"tp4", folder.file("case.toml")}, "can be trained: yes");
  says({"dp2", "--set", "training.accumulation=3"}, "can be trained: no: ");
  const Shown wrong = show({"layout", "tp4", "--set", "model.nothing=4"});
  EXPECT_EQ(wrong.exit_code, 2) << wrong.output;
}

TEST(Show, DataOfAMixtureNamesSourcesAndWhereTheyStand) {
  const std::vector<std::string> arguments{
      "data", "--steps", "2", "--set",
      R"(data.sources=[{"name":"a","weight":3,"samples":10},{"name":"b","samples":40}])"};
  const Shown text = show(arguments);
  EXPECT_EQ(text.exit_code, 0);
  for (const char* part :
       {"mixture of 2: 50 samples in all", "source a: weight 3, 10 samples from id 0",
        "source b: weight 1, 40 samples from id 10", "a: epoch 2, 4 taken",
        "b: epoch 0, 8 taken"}) {
    EXPECT_NE(text.output.find(part), text.output.npos) << text.output << " lacks " << part;
  }
  auto json = arguments;
  json.push_back("--json");
  const Json steps = parse_json(show(json).output, "show")["steps"];
  EXPECT_EQ(steps[1]["sources"][0], (Json{{"name", "a"}, {"epoch", 2}, {"taken", 4}}));
}

TEST(Show, LayoutAsJson) {
  const Shown result = show({"layout", "dp=2,zero=1", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const Json json = parse_json(result.output, "show");
  EXPECT_EQ(json["layout"], "dp2.zero1");
  EXPECT_EQ(json["axes"]["dp"]["groups"], Json::parse("[[0, 1]]"));
  EXPECT_EQ(json["axes"]["tp"]["degree"], 1);
  EXPECT_EQ(json["can_be_trained"], true);
}

TEST(Show, DataIsWhatTheRanksTake) {
  const Shown result =
      show({"data", "--layout", "dp3.zero1", "--set", "data.samples=40", "--steps", "3", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const Json json = parse_json(result.output, "show");
  EXPECT_EQ(json["dataset"]["samples"], 40);
  ASSERT_EQ(json["steps"].size(), 3u);
  for (std::size_t step = 0; step < 3; ++step) {
    // 40 samples are two steps of 16: the third step begins the second epoch.
    const auto order = epoch_order(40, 1, step / 2);
    EXPECT_EQ(json["steps"][step]["epoch"], step / 2);
    ASSERT_EQ(json["steps"][step]["ranks"].size(), 3u);
    std::vector<std::int64_t> ids;
    for (const Json& rank : json["steps"][step]["ranks"]) {
      const auto mine = rank["samples"].get<std::vector<std::int64_t>>();
      EXPECT_EQ(mine.size(), 4 * rank["micro_batches"].size());
      ids.insert(ids.end(), mine.begin(), mine.end());
    }
    const auto begin = order.begin() + static_cast<std::ptrdiff_t>(step % 2 * 16);
    EXPECT_EQ(ids, std::vector<std::int64_t>(begin, begin + 16));
  }
}

TEST(Show, DataAsATable) {
  const Shown result = show({"data", "--steps", "1"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.output.find("synthetic: 4096 samples an epoch of 16 tokens, digest "),
            result.output.npos);
  EXPECT_NE(result.output.find("step  epoch  rank  micro-batches"), result.output.npos);
  EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 3 + 4 + 1);
}

TEST(Show, CollectivesAsTableAndJson) {
  const Shown table = show({"collectives"});
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_NE(table.output.find("all_reduce: every rank gets the sum\n"), table.output.npos);
  EXPECT_NE(table.output.find("60 64 68 72"), table.output.npos);
  const Shown result = show({"collectives", "--ranks", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0);
  const Json json = parse_json(result.output, "show");
  const auto found = std::find_if(
      json.begin(), json.end(), [](const Json& each) { return each["operation"] == "all_gather"; });
  ASSERT_NE(found, json.end());
  EXPECT_EQ((*found)["ranks"][1]["after"], Json::parse("[0, 10]"));
}

TEST(Show, HelpHasExamples) {
  for (const char* verb : {"collectives", "layout", "data"}) {
    const Shown result = show({verb, "--help"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_NE(result.output.find(std::string("Examples:\n  shardproof show ") + verb),
              result.output.npos)
        << result.output;
  }
}

TEST(Show, IsAVerbOfTheCommand) {
  const auto run = [](const std::vector<std::string>& command) {
    return run_child(command, std::chrono::seconds(40));
  };
  const ChildResult good = run({SHARDPROOF_COMMAND, "show", "layout", "dp2"});
  EXPECT_EQ(good.exit_code, 0) << good.output;
  EXPECT_NE(good.output.find("dp   2  [0 1]\n"), good.output.npos) << good.output;
  const ChildResult bad = run({SHARDPROOF_COMMAND, "show", "layout", "dq2"});
  EXPECT_EQ(bad.exit_code, 2) << bad.output;
  EXPECT_NE(bad.output.find("layout \"dq2\""), bad.output.npos) << bad.output;
}

TEST(Show, BadUsageIsRefusedWithTwo) {
  expect_refusal({}, {"subcommand"});
  expect_refusal({"layout"}, {"LAYOUT"});
  expect_refusal({"layout", "dq2"}, {"layout \"dq2\"", "part \"dq2\"", "expected"});
  expect_refusal({"layout", "dp100000"}, {"has 100000 ranks; expected at most 65536"});
  expect_refusal({"data", "/nowhere/run.toml"}, {"/nowhere/run.toml", "cannot be read"});
  expect_refusal({"data", "--set", "training.stesp=1"}, {"training.stesp", "training.steps"});
  expect_refusal({"data", "--set", "data.samples=15"}, {"15 samples", "data.last short"});
  expect_refusal({"data", "--steps", "0"}, {"--steps"});
  expect_refusal({"data", "--layout", "dp2.ep2"}, {"not supported yet"});
  expect_refusal({"collectives", "--ranks", "0"}, {"--ranks"});
}

}  // namespace
}  // namespace shardproof

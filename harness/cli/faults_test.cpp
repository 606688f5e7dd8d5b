// ctest: fault timeout=120
// The verbs `faults` and `replay` on what users type: verdicts, exit codes, mistakes.
#include <gtest/gtest.h>

#include <array>
#include <fstream>

#include "base/temp_folder.h"
#include "harness/child.h"

namespace shardproof {
namespace {

ChildResult command(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), SHARDPROOF_COMMAND);
  return run_child(arguments, std::chrono::seconds(60));
}

constexpr const char* small =
    "model.layers=1 model.width=16 model.heads=2 model.vocabulary=32 model.sequence=8 "
    "data.samples=64 training.steps=3 training.global_batch=8 training.micro_batch=2 "
    "run.layout=dp2.zero1 ";

TEST(FaultsCommand, AScenarioSaysItsVerdictAndReplays) {
  const std::string run = std::string(small) + "run.fault=step:1:2:backward!kill";
  for (const char* verb : {"faults run", "replay"}) {
    const ChildResult result =
        verb == std::string("replay") ? command({"replay", run}) : command({"faults", "run", run});
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_NE(result.output.find("pass  detected  step:1:2:backward!kill"), std::string::npos)
        << result.output;
    EXPECT_NE(result.output.find("from step-00000002: complete"), std::string::npos);
  }
}

TEST(FaultsCommand, AFailureSaysHowToSeeItAgain) {
  const ChildResult result =
      command({"faults", "run", std::string(small) + "run.fault=step:1:99:backward!kill"});
  EXPECT_EQ(result.exit_code, 1) << result.output;
  EXPECT_NE(result.output.find("NOT FIRED"), std::string::npos);
  EXPECT_NE(result.output.find("replay: shardproof replay '"), std::string::npos);
}

TEST(FaultsCommand, ACampaignPrintsItsTable) {
  const ChildResult result =
      command({"faults", "campaign", small, "--kinds", "other_config,missing_shard"});
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_NE(result.output.find("SILENT"), std::string::npos);
  EXPECT_NE(result.output.find(", 0 left, 0 failed"), std::string::npos) << result.output;
}

TEST(FaultsCommand, MistakesAreNamed) {
  const TempFolder folder;
  const std::string script = folder.path() + "/s.toml";
  std::ofstream(script) << "title = \"x\"\n[[fault]]\npoint = \"start:9\"\nkind = \"other_data\"\n";
  const std::string bad_rank = std::string(small) + "run.fault=step:2:1:forward!kill";
  const std::array<std::pair<std::vector<std::string>, const char*>, 8> mistakes{{
      {{"faults", "run", small}, "nothing to inject"},
      {{"faults", "run", bad_rank}, "found rank 2; expected one of 2 ranks"},
      {{"faults", "run", script}, "found rank 9"},
      {{"faults", "run", folder.path() + "/none.toml"}, "none.toml"},
      {{"faults", "campaign", "run.backend=mpi"}, "run.backend"},
      {{"faults", "campaign", "--kinds", "kil"}, "nearest kind is kill"},
      {{"replay", std::string(small) + "run.fault=step:1:2:forward!kill", "--loss"}, "--loss"},
      {{"train", "--set", "run.fault=step:1:2:forward!kil"}, "nearest kind is kill"},
  }};
  for (const auto& [arguments, says] : mistakes) {
    const ChildResult result = command(arguments);
    EXPECT_EQ(result.exit_code, 2) << result.output;
    EXPECT_NE(result.output.find(says), std::string::npos) << result.output;
  }
}

}  // namespace
}  // namespace shardproof

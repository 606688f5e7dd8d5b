// ctest: unit timeout=120
// Other people's checkpoints and savers as a user meets them: output, JSON and exit codes.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/json.h"
#include "base/temp_folder.h"
#include "harness/child.h"

namespace shardproof {
namespace {

const std::string testdata = SHARDPROOF_SCENARIOS "/../../src/checkpoint/testdata/foreign/";
const std::string saver =
    (std::filesystem::path(own_executable()).parent_path() / "small_saver").string();

ChildResult command(std::vector<std::string> words) {
  words.insert(words.begin(), SHARDPROOF_COMMAND);
  return run_child(words, std::chrono::seconds(100));
}

bool has(const ChildResult& result, const std::string& part) {
  return result.output.find(part) != std::string::npos;
}

TEST(ForeignVerbs, VerifySaysWholeOrNamesTheTensor) {
  const ChildResult whole = command({"checkpoint", "verify", testdata + "dcp"});
  EXPECT_EQ(whole.exit_code, 0) << whole.output;
  EXPECT_TRUE(has(whole, "whole (dcp, 3 tensors)")) << whole.output;
  const ChildResult damaged =
      command({"checkpoint", "verify", testdata + "nano_short.pt", "--json"});
  EXPECT_EQ(damaged.exit_code, 1) << damaged.output;
  const Json json = parse_json(damaged.output, "verify");
  EXPECT_EQ(json["format"], "nanoGPT (torch.save)");
  EXPECT_EQ(json["damages"][0]["where"], "model.transformer.h.1.ln_1.weight");
  const ChildResult none = command({"checkpoint", "verify", testdata + "../foreign.py"});
  EXPECT_EQ(none.exit_code, 2) << none.output;
  EXPECT_TRUE(has(none, "is no checkpoint that is known")) << none.output;
}

TEST(ForeignVerbs, DiffComparesByName) {
  const ChildResult differ =
      command({"checkpoint", "diff", testdata + "rows.pt", testdata + "dcp"});
  EXPECT_EQ(differ.exit_code, 1) << differ.output;
  EXPECT_TRUE(has(differ, "rows: absent | F32 [4,3]")) << differ.output;
  const ChildResult same = command({"checkpoint", "diff", testdata + "dcp", testdata + "dcp"});
  EXPECT_EQ(same.exit_code, 0) << same.output;
  const ChildResult trouble =
      command({"checkpoint", "diff", testdata + "nano_short.pt", testdata + "dcp"});
  EXPECT_EQ(trouble.exit_code, 2) << trouble.output;
}

TEST(CrashSweepVerb, PrintsEveryPointAndWritesAReport) {
  const TempFolder folder;
  const auto sweep = [&](const std::string& how, const std::string& report) {
    return command({"crash-sweep", "--root", folder.file("root"), "--load", saver + " load {root}",
                    "--out", folder.file(report), "--", saver, how, "{root}", "{n}"});
  };
  const ChildResult right = sweep("rename", "right.json");
  EXPECT_EQ(right.exit_code, 0) << right.output;
  EXPECT_TRUE(has(right, "save 2 (overwriting): 10 file operations, 10 OLD")) << right.output;
  const ChildResult wrong = sweep("in-place", "wrong.json");
  EXPECT_EQ(wrong.exit_code, 1) << wrong.output;
  EXPECT_TRUE(has(wrong, "MIXED")) << wrong.output;
  const Json report = parse_json(folder.read("wrong.json"), "wrong.json");
  EXPECT_EQ(report["crashes"]["points"].size(), 10u);
  EXPECT_EQ(report["crashes"]["points"][8]["found"], "MIXED");
  EXPECT_EQ(sweep("rename", "right.json").exit_code, 2) << "the report is there already";
}

TEST(CrashSweepVerb, FindsDamageThatIsLoadedSilently) {
  const TempFolder folder;
  const auto sweep = [&](const std::string& load) {
    return command({"crash-sweep", "--root", folder.file("root"), "--damage", "--flips", "3",
                    "--load", saver + " " + load + " {root}", "--", saver, "in-place", "{root}",
                    "{n}"});
  };
  const ChildResult strict = sweep("load");
  EXPECT_EQ(strict.exit_code, 0) << strict.output;
  const ChildResult loose = sweep("loose-load");
  EXPECT_EQ(loose.exit_code, 1) << loose.output;
  EXPECT_TRUE(has(loose, "SILENT   current/part1: bit 0 of byte 0")) << loose.output;
}

}  // namespace
}  // namespace shardproof

// ctest: unit timeout=120
// The checkpoint verbs as a user or a script meets them: output, JSON and exit codes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "base/shell_testing.h"
#include "base/temp_folder.h"
#include "harness/cli/cli.h"
#include "train/manifest_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::State;

struct Ended {
  int code = -1;
  std::string text;  // standard output, then errors
};

// A process of its own.
Ended process(const std::string& arguments) {
  const std::string line = "'" SHARDPROOF_COMMAND "' checkpoint " + arguments + " 2>&1";
  Ended ended;
  ended.text = testing::output_of(line, ended.code);
  return ended;
}

// The verbs alone, without the time a process takes to start; ends as main would.
Ended command(const std::string& arguments) {
  CLI::App app("", "shardproof");
  app.require_subcommand(1);
  Ended ended;
  ended.code = 0;
  std::string error_text;
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  try {
    add_checkpoint(app, ended.code);
    app.parse("checkpoint " + arguments);
  } catch (const CLI::ParseError& error) {
    ended.code = app.exit(error) == 0 ? 0 : 2;
  } catch (const Error& error) {
    error_text = error.what();
    ended.code = exit_code(error.kind());
  }
  std::fflush(stdout);
  ended.text = ::testing::internal::GetCapturedStdout();
  ended.text += ::testing::internal::GetCapturedStderr() + error_text;
  return ended;
}

// Two checkpoints of different states, at steps 10 and 20.
class CheckpointVerbs : public ::testing::Test {
 protected:
  CheckpointVerbs() : storage_(posix_storage(directory(), false)) {
    testing::write_tiny(*storage_, 2, state_, 10);
    later_.tensors()[2].bytes[8] ^= std::byte{0x80};  // element 2 of pos.weight/param
    testing::write_tiny(*storage_, 3, later_, 20);
  }
  std::string directory() const { return temporary_.path(); }
  std::string in(const std::string& id) const { return "'" + directory() + "/" + id + "'"; }
  std::string dir() const { return "'" + directory() + "'"; }

  // The first byte of the first entry, or of the parameter's first.
  void damage(const std::string& id, const std::string& parameter = "") {
    const Manifest manifest = read_manifest(*storage_, id);
    const ManifestEntry entry =
        *std::find_if(manifest.entries.begin(), manifest.entries.end(), [&](const auto& each) {
          return parameter.empty() || (each.name == parameter && each.what == "param");
        });
    auto bytes = testing::read_file(*storage_, entry.file);
    bytes[entry.begin] ^= std::byte{1};
    testing::replace_file(*storage_, entry.file, bytes);
  }

  // Of element 2 of pos.weight/param.
  static std::string bits(const State& state) {
    std::uint32_t word = 0;
    std::memcpy(&word, &state.tensors()[2].bytes[8], sizeof word);
    return fmt::format("{:08x}", word);
  }

  TempFolder temporary_;
  std::unique_ptr<Storage> storage_;
  State state_ = testing::tiny_state(1);
  State later_ = testing::tiny_state(1);
};

TEST_F(CheckpointVerbs, ListShowsStepsOldestFirst) {
  const Ended text = command("list " + dir());
  EXPECT_EQ(text.code, 0) << text.text;
  EXPECT_LT(text.text.find("step-00000010"), text.text.find("step-00000020"));
  const Ended json = command("list --json " + dir());
  const Json rows = parse_json(json.text, "list");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["step"], 10);
  EXPECT_EQ(rows[1]["files"], 3);
  EXPECT_EQ(rows[1]["state_digest"],
            read_manifest(*storage_, "step-00000020").state_digest().hex());
  EXPECT_EQ(rows[0]["layout"], "dp2.zero1");
}

TEST_F(CheckpointVerbs, ListNamesAnUnreadableManifest) {
  testing::replace_file(*storage_, manifest_path("step-00000020"), {});
  const Ended text = command("list " + dir());
  EXPECT_EQ(text.code, 0);
  EXPECT_TRUE(contains(text.text, "unreadable: corrupt: step-00000020.manifest.json")) << text.text;
}

TEST_F(CheckpointVerbs, ShowPrintsFactsFilesAndEntriesOfTheNewestOrTheNamed) {
  const Ended newest = command("show " + dir());
  EXPECT_EQ(newest.code, 0);
  EXPECT_TRUE(contains(newest.text, "checkpoint step-00000020\n")) << newest.text;
  const Ended text = command("show " + dir() + " step-00000010");
  EXPECT_EQ(text.code, 0);
  for (const std::string words :
       {"checkpoint step-00000010\n", "model.vocabulary=350", "dp2.zero1", "data digest        d1",
        "rank_00001.safetensors", "blocks.0.ln1.bias/exp_avg", "embed.weight/param", "[0:1400)",
        "[175,8]", "{\"epoch\":0,\"taken\":160,"}) {
    EXPECT_TRUE(contains(text.text, words)) << words << "\n" << text.text;
  }
  const Ended json = command("show --json " + dir() + " step-00000010");
  EXPECT_EQ(parse_json(json.text, "show")["facts"]["step"], 10);
}

TEST_F(CheckpointVerbs, VerifySaysWholeOrOneLineADamage) {
  Ended text = command("verify " + dir());
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.text, "step-00000010: whole\nstep-00000020: whole\n");
  damage("step-00000020");
  text = command("verify " + dir());
  EXPECT_EQ(text.code, 1);
  EXPECT_TRUE(contains(text.text, "step-00000010: whole\n")) << text.text;
  EXPECT_TRUE(contains(text.text, "step-00000020: damaged: step-00000020.shards-")) << text.text;
  EXPECT_TRUE(contains(text.text, "blocks.0.attn.k.bias/exp_avg piece 0 [0:4], bytes ["))
      << text.text;
  EXPECT_EQ(command("verify " + dir() + " step-00000010").code, 0);
  EXPECT_EQ(command("verify " + dir() + " step-00000020").code, 1);
  const Ended json = command("verify --json " + dir());
  EXPECT_EQ(json.code, 1);
  const Json report = parse_json(json.text, "verify");
  EXPECT_EQ(report[0]["whole"], true);
  EXPECT_EQ(report[1]["whole"], false);
  EXPECT_EQ(report[1]["damages"].size(), 2u);
}

TEST_F(CheckpointVerbs, NothingCheckedIsNeverASuccess) {
  const TempFolder empty;
  EXPECT_EQ(command("verify '" + empty.path() + "'").code, 2);
  EXPECT_EQ(command("show '" + empty.path() + "'").code, 2);
  const Ended list = command("list '" + empty.path() + "'");
  EXPECT_EQ(list.code, 0);
  EXPECT_TRUE(contains(list.text, "no checkpoint in ")) << list.text;
}

TEST_F(CheckpointVerbs, BadUsageIsExitCode2) {
  for (const std::string& arguments :
       {std::string(), std::string("list"), std::string("list /no/such/directory"),
        "verify " + dir() + " none", "verify " + dir() + " ../x", "show " + dir() + " none",
        std::string("verify"), "list --bad " + dir(), "diff " + dir(),
        "diff " + dir() + " /no/such", "diff " + in("none") + " " + dir()}) {
    const Ended ended = command(arguments);
    EXPECT_EQ(ended.code, 2) << arguments << "\n" << ended.text;
    EXPECT_FALSE(ended.text.empty()) << arguments;
  }
}

TEST_F(CheckpointVerbs, DiffHasTheExitCodesOfDiff) {
  const Ended same = command("diff " + dir() + " " + in("step-00000020"));
  EXPECT_EQ(same.code, 0);
  EXPECT_EQ(same.text, "");
  const Ended differ = command("diff " + in("step-00000010") + " " + in("step-00000020"));
  EXPECT_EQ(differ.code, 1);
  EXPECT_TRUE(differ.text.starts_with("--- " + directory() + "/step-00000010\n+++ " + directory() +
                                      "/step-00000020\npos.weight/param piece 0 element 2: "))
      << differ.text;
  EXPECT_TRUE(contains(differ.text, bits(state_) + " | " + bits(later_) + "\n")) << differ.text;
  const Ended json = command("diff --json " + in("step-00000010") + " " + dir());
  EXPECT_EQ(json.code, 1);
  const Json report = parse_json(json.text, "diff");
  ASSERT_EQ(report.size(), 1u);
  EXPECT_EQ(report[0]["entry"], "pos.weight/param piece 0");
  EXPECT_EQ(report[0]["element"], 2);
  EXPECT_NE(report[0]["left"], report[0]["right"]);
}

TEST_F(CheckpointVerbs, TroubleOfADiffNamesTheFolder) {
  const TempFolder other;
  const std::string there = other.path();
  Ended trouble = command("diff " + dir() + " '" + there + "'");
  EXPECT_EQ(trouble.code, 2);
  EXPECT_TRUE(contains(trouble.text, there + ": there is no checkpoint in it")) << trouble.text;
  trouble = command("diff '" + there + "/step-00000010' " + dir());
  EXPECT_EQ(trouble.code, 2);
  EXPECT_TRUE(contains(trouble.text, there + ": checkpoint step-00000010: ")) << trouble.text;
  damage("step-00000010", "pos.weight");
  trouble = command("diff " + in("step-00000010") + " " + dir());
  EXPECT_EQ(trouble.code, 2);
  EXPECT_TRUE(contains(trouble.text,
                       directory() + "/step-00000010 against " + directory() + "/step-00000020: "))
      << trouble.text;
  testing::replace_file(*storage_, manifest_path("step-00000010"), {});
  trouble = command("diff " + in("step-00000010") + " " + dir());
  EXPECT_EQ(trouble.code, 2);
  EXPECT_TRUE(contains(trouble.text, directory() + ": step-00000010.manifest.json"))
      << trouble.text;
}

TEST_F(CheckpointVerbs, AResealedManifestIsNotWhole) {
  testing::reseal(*storage_, "step-00000010", [](Manifest& manifest) {
    manifest.facts.layout = "dp4";
    manifest.facts.cursor["samples"] = 0;
  });
  const Ended text = command("verify " + dir());
  EXPECT_EQ(text.code, 1);
  EXPECT_TRUE(contains(text.text,
                       "step-00000010: damaged: step-00000010.manifest.json: facts.layout against "
                       "facts.config.run.layout: expected dp2.zero1, found dp4\n"))
      << text.text;
  EXPECT_TRUE(contains(text.text, "facts.cursor.samples against facts.step")) << text.text;
  EXPECT_TRUE(contains(text.text, "step-00000020: whole\n")) << text.text;
}

TEST_F(CheckpointVerbs, TheProgramItselfEndsWithTheSameCodes) {
  const Ended whole = process("verify " + dir());
  EXPECT_EQ(whole.code, 0);
  EXPECT_EQ(whole.text, "step-00000010: whole\nstep-00000020: whole\n");
  damage("step-00000010");
  EXPECT_EQ(process("verify " + dir()).code, 1);
  const Ended none = process("verify " + dir() + " none");
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.text, "shardproof: bad_input: checkpoint none: there is no none.manifest.json\n");
  EXPECT_EQ(process("diff " + in("none") + " " + dir()).code, 2);
}

TEST_F(CheckpointVerbs, HelpHasExamples) {
  for (const std::string verb : {"", "list ", "show ", "verify ", "diff "}) {
    const Ended help = command(verb + "--help");
    EXPECT_EQ(help.code, 0);
    EXPECT_TRUE(contains(help.text, "Examples:\n  shardproof checkpoint ")) << help.text;
  }
}

}  // namespace
}  // namespace shardproof

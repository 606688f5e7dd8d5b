// ctest: unit
// import, export and scalars as a user or a script meets them: exit codes and what is said.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/temp_folder.h"
#include "harness/cli/trace_testing.h"

namespace shardproof {
namespace {

std::string log_of(const std::string& second_loss) {
  return "[rank0]:[titan] - step:  1  loss:  8.0277  grad_norm:  1.4604  tps: 5,756\n"
         "[rank0]:[titan] - step:  2  loss:  " +
         second_loss +
         "  grad_norm:  1.4000  tps: 5,756\n"
         "[rank0]:[titan] - Training completed\n";
}

class TraceImportVerbs : public ::testing::Test {
 protected:
  std::string imported(const std::string& name, const std::string& second_loss) {
    folder_.write(name + ".log", log_of(second_loss));
    const Ended ended =
        trace({"import", "torchtitan", folder_.file(name + ".log"), folder_.file(name)});
    EXPECT_EQ(ended.code, 0) << ended.errors;
    return folder_.file(name);
  }
  void expect_said(const Ended& ended, int code, const std::string& words) {
    EXPECT_EQ(ended.code, code) << ended.output << ended.errors;
    EXPECT_NE((ended.output + ended.errors).find(words), std::string::npos)
        << "\"" << ended.output << ended.errors << "\" lacks \"" << words << "\"";
  }

  TempFolder folder_;
};

TEST_F(TraceImportVerbs, ImportsAreComparedStepByStep) {
  const std::string a = imported("a", "7.5000"), b = imported("b", "7.5000"),
                    c = imported("c", "7.5001");
  // Nothing was shown of tensors, so equal scalars are no equal runs.
  expect_said(trace({"diff", a, b}), 2, "tensors: not verified (scalars imported from torchtitan)");
  expect_said(trace({"diff", a, c}), 1, "step 1, loss");
  expect_said(trace({"diff", a, c}), 1, "tensors: not verified");
  // Whoever asks for scalars alone is answered, and told.
  expect_said(trace({"scalars", a, b}), 0, "tensors: not verified");
  expect_said(trace({"scalars", a, b}), 0, "equal: loss (2 steps), grad_norm (2 steps)");
  expect_said(trace({"scalars", a, c}), 1, "step 1, loss");
  expect_said(trace({"scalars", a, c}), 1, "tensors: not verified");
  expect_said(trace({"scalars", a, b, "--json"}), 0, "\"outcome\": \"pass\"");
  expect_said(trace({"scalars", a, folder_.file("none")}), 2, folder_.file("none"));
  expect_said(trace({"check", a}), 3, "tensors: not verified");
}

TEST_F(TraceImportVerbs, ExportIsImportedAgain) {
  const std::string a = imported("a", "7.5000"), events = folder_.file("events.out.tfevents.1");
  expect_said(trace({"export", a, events}), 0, "4 scalars written");
  expect_said(trace({"export", a, events}), 2, "the file exists");
  expect_said(trace({"export", a, folder_.file("scalars")}), 2, "tfevents");
  expect_said(trace({"import", "tensorboard", events, folder_.file("b")}), 0, "float32");
  expect_said(trace({"import", "tensorboard", folder_.path(), folder_.file("c")}), 0, "2 steps");
  expect_said(trace({"scalars", folder_.file("b"), folder_.file("c")}), 0, "loss (2 steps)");
  expect_said(trace({"scalars", a, folder_.file("c")}), 2, "4 decimals on the expected side");
}

TEST_F(TraceImportVerbs, TagsAndTheFirstStepAreAsked) {
  folder_.write("golden.json", R"({"ce": {"end_step": 5, "values": {"4": 1.5, "5": 1.25}}})");
  const std::string golden = folder_.file("golden.json");
  expect_said(trace({"import", "megatron", golden, folder_.file("a")}), 2, "found ce");
  EXPECT_FALSE(std::filesystem::exists(folder_.file("a")));
  expect_said(trace({"import", "megatron", golden, folder_.file("a"), "--loss-tag", "x",
                     "--loss-tag", "ce", "--first-step", "4"}),
              0, "loss (\"ce\", 5 decimals)");
  EXPECT_NE(folder_.read("a/rank_00000.jsonl").find("\"step\":0,\"loss\":1.5"), std::string::npos);
  expect_said(trace({"import", "megatron", golden, folder_.file("a"), "--loss-tag", "ce"}), 2,
              "a trace already");
}

TEST_F(TraceImportVerbs, BadUseIsTold) {
  folder_.write("log", "step: 1  loss: 8,0\n");
  expect_said(trace({"import", "wandb", folder_.file("log"), folder_.file("a")}), 2, "wandb");
  expect_said(trace({"import", "torchtitan", folder_.file("log"), folder_.file("a")}), 1, "log:1");
  expect_said(trace({"import", "torchtitan", folder_.file("log")}), 2, "DIR is required");
  expect_said(trace({"import", "torchtitan", folder_.file("log"), "a", "--first-step", "-1"}), 2,
              "--first-step");
  expect_said(trace({"export", folder_.file("none"), folder_.file("tfevents")}), 2, "none");
}

TEST_F(TraceImportVerbs, HelpTellsExamplesAndExitCodes) {
  for (const std::string verb : {"import", "export", "scalars"}) {
    const Ended help = trace({verb, "--help"});
    EXPECT_EQ(help.code, 0);
    EXPECT_NE(help.output.find("Examples:\n  shardproof trace " + verb), std::string::npos);
    EXPECT_NE(help.output.find("Exit codes"), std::string::npos) << help.output;
  }
}

}  // namespace
}  // namespace shardproof

// ctest: unit timeout=120 lock=mpi
// What the command says of results that it cannot write, run as a user types it. Exit code 2: the
// name cannot be meant; 3: the machine does not take it.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/temp_folder.h"
#include "harness/child.h"
#include "train/case_testing.h"

namespace shardproof {
namespace {

using std::chrono::seconds;

class OutputCommand : public testing::Test {
 protected:
  OutputCommand() { folder_.write("case.toml", to_toml(small_case("dp2", 2))); }

  // In a shell, in the folder.
  ChildResult shell(const std::string& line) const {
    return run_child({"sh", "-c", "cd " + folder_.path() + " && " + line}, seconds(60));
  }
  ChildResult train(const std::string& options) const {
    return shell(command_ + " train case.toml " + options);
  }
  void expect_end(const ChildResult& result, int code, const std::string& words) const {
    EXPECT_EQ(result.exit_code, code) << result.output;
    EXPECT_NE(result.output.find(words), std::string::npos) << result.output;
  }

  const std::string command_ = SHARDPROOF_COMMAND;
  const TempFolder folder_;
};

TEST_F(OutputCommand, WhatExistsIsNeverWrittenInto) {
  folder_.write("mine", "precious");
  expect_end(train("--metrics mine"), 2, "mine: exists already");
  expect_end(train("--checkpoint mine"), 2, "mine: the folder cannot be made: Not a directory");
  expect_end(train("--trace mine/below"), 2, "mine/below: the folder cannot be made");
  expect_end(shell(command_ + " accept --out mine"), 2, "mine: exists already");
  expect_end(shell(command_ + " accept --out mine/below"), 2, "Not a directory");
  EXPECT_EQ(folder_.read("mine"), "precious");
}

TEST_F(OutputCommand, WhatTheMachineDoesNotTakeIsTheEnvironments) {
  expect_end(train("--metrics /proc/x"), 3, "/proc/x");
  expect_end(train("--metrics /dev/full"), 3, "write /dev/full: No space left on device");
  // Of processes: what ended the run, not who died of it.
  expect_end(train("--backend mpi --metrics /dev/full"), 3, "io: write /dev/full: No space left");
  expect_end(train("--checkpoint /proc/x"), 3, "/proc/x");
  expect_end(train("--trace /proc/x"), 3, "/proc/x");
  expect_end(shell(command_ + " accept --out /proc/x"), 3, "/proc/x");
}

TEST_F(OutputCommand, ARunThatCouldNotStartLeavesItsTraceFolderFree) {
  expect_end(train("--trace t --set data.kind=text --set data.path=no --set model.vocabulary=256"),
             2, "no: cannot be opened");
  expect_end(train("--trace t"), 0, "loss");
  expect_end(train("--trace t"), 2, "holds a trace already");
}

// Two runs at once: the first has said which config it runs, and not yet traced.
TEST_F(OutputCommand, ATraceFolderThatIsTakenIsRefused) {
  std::filesystem::create_directory(folder_.file("t"));
  folder_.write("t/config.toml", "of another run");
  expect_end(train("--trace t"), 2, "t/config.toml: exists already");
  EXPECT_EQ(folder_.read("t/config.toml"), "of another run");
}

TEST_F(OutputCommand, ABrokenScreenIsToldAndStopsNoTraining) {
  const std::string words = "standard output: not all was written: ";
  expect_end(train("--checkpoint saved > /dev/full"), 3, words + "No space left on device");
  expect_end(shell(command_ + " checkpoint verify saved step-00000002"), 0, "whole");
  expect_end(shell(command_ + " --help > /dev/full"), 3, words);
  expect_end(shell(command_ + " show layout dp4 > /dev/full"), 3, words);
  // A file that the run opens must not take the place of a closed screen.
  expect_end(train("--metrics metrics.jsonl >&-"), 3, words + "Bad file descriptor");
  EXPECT_TRUE(folder_.read("metrics.jsonl").starts_with("{\"step\":0,"));
}

// The limit on a file's size stands for a full disk. The folder of the report goes around a file.
TEST_F(OutputCommand, AFullDiskLeavesVerdictsAndTheWordThatTheReportIsLost) {
  folder_.write("shardproof-report-1", "");
  const auto result =
      shell("ulimit -f 16 && " + command_ + " replay 'training.steps=4 run.layout=dp1'");
  expect_end(result, 3, "report in shardproof-report-2: could not be written");
  EXPECT_NE(result.output.find("File too large"), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("live"), std::string::npos) << "the verdicts: " << result.output;
}

}  // namespace
}  // namespace shardproof

// ctest: unit
// The lines are torchtitan's, of several versions (metrics.py, train.py): with and without
// grad_norm, four and five decimals, tps and wps, colours, prefixes of torchrun and of the logger.
#include "trace/import/torchtitan_log.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

const std::string prefix = "[rank0]:[titan] 2025-11-25 19:45:01,441 - root - INFO - ";

std::string line(int step, const std::string& loss, const std::string& norm) {
  return prefix + "step: " + (step < 10 ? " " : "") + std::to_string(step) + "  loss: " + loss +
         "  grad_norm: " + norm +
         "  memory:  1.21GiB(0.86%)  tps: 5,756  tflops: 0.41  mfu: 0.04%\n";
}

ScalarLog read(const std::string& text, const ScalarOptions& options = {}) {
  TempFolder folder;
  folder.write("log", text);
  return read_torchtitan_log(folder.file("log"), options);
}

void expect_damage(const std::string& text, std::initializer_list<std::string_view> parts) {
  expect_error(ErrorKind::corrupt, parts, [&] { read(text); });
}

TEST(TorchtitanLog, GivesStepsAndDigits) {
  const ScalarLog log =
      read(prefix + "Training starts at step 1.\n" + line(1, " 8.0277", " 1.4604") + prefix +
           "Synchronizing and adjusting timeout for all ProcessGroups to 0:01:40\n" +
           line(10, "12.2254", "26.6250") + prefix + "Training completed\n");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].step, 1);
  EXPECT_EQ(log.steps[0].values[0], 8.0277);
  EXPECT_EQ(log.steps[0].values[1], 1.4604);
  EXPECT_EQ(log.steps[0].values[2], std::nullopt);
  EXPECT_EQ(log.steps[1].step, 10);
  EXPECT_EQ(log.steps[1].values[0], 12.2254);
  EXPECT_EQ(log.digits[0], "4 decimals");
  EXPECT_EQ(log.digits[2], "");
  EXPECT_EQ(log.ended, true);
  EXPECT_FALSE(log.torn);
  EXPECT_TRUE(log.notes.empty());
}

TEST(TorchtitanLog, KnowsOlderAndNewerLines) {
  const ScalarLog log = read(
      "2024-10-03 16:44:28,481 - root - INFO - step:  1  loss: 10.8235  memory: 26.73GiB(60.17%)  "
      "wps: 1,176  mfu: 16.15%\n"
      "[2026-02-28 14:29:32,701515][I][components/metrics:515:log] step: 60  loss:  3.30735  "
      "grad_norm:  0.9320  memory:  8.30GiB(12.97%)  tps: 107,548  tflops: 7.70  mfu: 2.58%\r\n");
  ASSERT_EQ(log.steps.size(), 2u);
  EXPECT_EQ(log.steps[0].values[1], std::nullopt);
  EXPECT_EQ(log.steps[1].values[0], 3.30735);
  EXPECT_EQ(log.digits[0], "4 decimals to 5 decimals");
  EXPECT_EQ(log.digits[1], "4 decimals");
  EXPECT_EQ(log.ended, false) << "it prints Training completed when it does";
}

TEST(TorchtitanLog, SeesThroughColours) {
  const ScalarLog log = read(
      "[titan] 2025-06-04 08:51:48,074 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss: "
      "12.2254  \x1b[38;2;180;60;0mgrad_norm:  0.6113  \x1b[36mmemory: 27.34GiB(28.78%)  "
      "\x1b[34mtps: 375\x1b[39m\n");
  ASSERT_EQ(log.steps.size(), 1u);
  EXPECT_EQ(log.steps[0].values[0], 12.2254);
  EXPECT_EQ(log.steps[0].values[1], 0.6113);
}

TEST(TorchtitanLog, MergesRanksThatAgree) {
  std::string second = line(1, " 8.0277", " 1.4604");
  second.replace(1, 5, "rank1");
  const ScalarLog log = read(line(1, " 8.0277", " 1.4604") + second);
  EXPECT_EQ(log.steps.size(), 1u);
  ASSERT_EQ(log.notes.size(), 2u);
  EXPECT_NE(log.notes[0].find("1 values of loss were there before"), std::string::npos);
  expect_damage(
      line(1, " 8.0277", " 1.4604") + line(2, " 7.0", " 1.4604") + line(1, " 8.0278", " 1.4604"),
      {"log:3", "loss of step 1 is 8.0278, but 8.0277 at", "log:1", "ranks"});
}

// The stages of a pipeline that do not hold the loss print -1 for it.
TEST(TorchtitanLog, StagesWithoutALossHaveNone) {
  const ScalarLog log = read(line(1, "-1.0000", " 1.4604") + line(1, " 8.0277", " 1.4604"));
  EXPECT_EQ(log.steps[0].values[0], 8.0277);
  ASSERT_EQ(log.notes.size(), 2u);
  EXPECT_NE(log.notes[1].find("1 lines print a loss of -1"), std::string::npos);
  expect_error(ErrorKind::bad_input, {"no loss"}, [] { read(line(1, "-1.0000", " 1.4604")); });
}

TEST(TorchtitanLog, ValidationIsNoStep) {
  const ScalarLog log = read(line(1, " 8.0277", " 1.4604") + prefix +
                             "validate step:  1  loss:  9.0000  memory:  1.21GiB  tps: 5,756\n");
  EXPECT_EQ(log.steps[0].values[0], 8.0277);
  EXPECT_TRUE(log.notes.empty());
}

TEST(TorchtitanLog, ATornLastLineIsLeftOut) {
  const std::string whole = line(1, " 8.0277", " 1.4604"), next = line(2, " 7.5", " 1.4");
  for (std::size_t size = 1; size < next.size(); ++size) {
    const ScalarLog log = read(whole + next.substr(0, size));
    ASSERT_EQ(log.steps.size(), 1u) << size;
    EXPECT_TRUE(log.torn);
  }
  EXPECT_FALSE(read(whole + next).torn);
}

TEST(TorchtitanLog, NamesTheLineOfWhatIsNoNumber) {
  expect_damage(line(1, " 8.0277", " 1.4604") + line(2, "8.0[rank1]:", " 1.4"),
                {"log:2", "loss", "8.0[rank1]:"});
  expect_damage(prefix + "step: one  loss:  8.0277\n", {"log:1", "step", "one"});
  expect_damage(prefix + "step: 1  loss:\n", {"log:1", "loss: expected a number"});
  expect_damage(prefix + "step: 1  loss: 8,0\n", {"log:1", "8,0"});
  expect_error(ErrorKind::bad_input, {"log", "no loss", "found no scalar"},
               [] { read("Starting job\n"); });
  expect_error(ErrorKind::bad_input, {"found", "grad_norm", "memory"}, [] {
    ScalarOptions options;
    options.loss_tags = {"ce"};
    read(line(1, " 8.0277", " 1.4604"), options);
  });
}

TEST(TorchtitanLog, NotANumberIsAValue) {
  const ScalarLog log = read(line(1, "    nan", "    inf"));
  EXPECT_TRUE(std::isnan(*log.steps[0].values[0]));
  EXPECT_TRUE(std::isinf(*log.steps[0].values[1]));
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "harness/progress.h"

#include <gtest/gtest.h>

#include <string>

namespace shardproof {
namespace {

StepResult result_at(std::int64_t step) {
  StepResult result;
  result.step = step;
  result.loss = 2.5;
  result.grad_norm = 1.25;
  result.lr = 0.01;
  return result;
}

StepMetrics thousand_tokens_a_second() {
  StepMetrics metrics;
  metrics.tokens = 500;
  metrics.seconds = 0.5;
  return metrics;
}

std::string printed(bool terminal) {
  std::FILE* file = std::tmpfile();
  VirtualClock clock;
  Progress progress(file, terminal, 10, clock);
  for (std::int64_t step = 0; step < 2; ++step) {
    clock.advance(std::chrono::seconds(30));
    progress.step(result_at(step), thousand_tokens_a_second());
  }
  progress.finish();
  std::rewind(file);
  std::string text(4096, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file));
  std::fclose(file);
  return text;
}

TEST(Progress, OneLineAStepWhereNobodyWatches) {
  EXPECT_EQ(printed(false),
            "step    0/10  loss 2.500000  grad_norm 1.2500  lr 1.0e-02  1.0k tokens/s\n"
            "step    1/10  loss 2.500000  grad_norm 1.2500  lr 1.0e-02  1.0k tokens/s\n");
}

TEST(Progress, ATerminalSeesOneLineWithTheTimeLeft) {
  const std::string text = printed(true);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\r'), 2);
  EXPECT_NE(text.find("4 min 30 s left"), std::string::npos) << text;  // 9 steps of 30 s
  EXPECT_NE(text.find("4 min 00 s left"), std::string::npos) << text;
}

TEST(Progress, PrintsSecondsForPeople) {
  EXPECT_EQ(print_seconds(0.4), "0 s");
  EXPECT_EQ(print_seconds(59.4), "59 s");
  EXPECT_EQ(print_seconds(60), "1 min 00 s");
  EXPECT_EQ(print_seconds(3600 * 26 + 61), "26 h 01 min");
}

}  // namespace
}  // namespace shardproof

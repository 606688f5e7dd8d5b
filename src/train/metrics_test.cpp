// ctest: unit
#include "train/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

using std::chrono::milliseconds;

std::vector<Json> lines_of(const std::string& path) {
  std::vector<Json> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) out.push_back(parse_json(line, path));
  return out;
}

std::string scratch_file() {
  return (std::filesystem::temp_directory_path() /
          ("metrics-" + std::to_string(::getpid()) + ".jsonl"))
      .string();
}

TEST(Metrics, TimesPartsOnTheGivenClockAndWritesOneLineAStep) {
  const std::string path = scratch_file();
  VirtualClock clock;
  {
    Metrics metrics(path, clock);
    for (std::int64_t step = 0; step < 2; ++step) {
      metrics.begin_step(step);
      for (int i = 0; i < 2; ++i) {
        const Metrics::Scope scope(metrics, Part::forward);
        clock.advance(milliseconds(100));
      }
      {
        const Metrics::Scope scope(metrics, Part::communication);
        clock.advance(milliseconds(50));
      }
      clock.advance(milliseconds(250));  // outside every part
      metrics.current().loss = 1.5;
      metrics.current().tokens = 1000;
      metrics.current().flops = 3e9;
      metrics.current().peak_flops = 1e10;
      metrics.current().bytes_sent = 2000;
      metrics.current().pipeline_idle = 0.125;
      metrics.end_step();
    }
    EXPECT_DOUBLE_EQ(metrics.last().seconds, 0.5);
  }
  const auto lines = lines_of(path);
  std::filesystem::remove(path);
  ASSERT_EQ(lines.size(), 2u);
  const Json& line = lines[1];
  EXPECT_EQ(line.at("step"), 1);
  EXPECT_EQ(line.at("loss"), 1.5);
  EXPECT_EQ(line.at("pipeline_idle"), 0.125);
  EXPECT_DOUBLE_EQ(line.at("parts").at("forward").get<double>(), 0.2);
  EXPECT_DOUBLE_EQ(line.at("parts").at("communication").get<double>(), 0.05);
  EXPECT_EQ(line.at("parts").at("backward"), 0.0);
  EXPECT_DOUBLE_EQ(line.at("tokens_per_second").get<double>(), 2000);
  EXPECT_DOUBLE_EQ(line.at("utilisation").get<double>(), 0.6);
  EXPECT_DOUBLE_EQ(line.at("bytes_per_second").get<double>(), 40000);
}

TEST(Metrics, ACheckpointCountsForTheStepAfterIt) {
  VirtualClock clock;
  Metrics metrics("", clock);
  metrics.begin_step(0);
  metrics.end_step();
  {
    const Metrics::Scope scope(metrics, Part::checkpoint);
    clock.advance(milliseconds(70));
  }
  metrics.begin_step(1);
  clock.advance(milliseconds(30));
  metrics.end_step();
  EXPECT_DOUBLE_EQ(metrics.last().parts[static_cast<std::size_t>(Part::checkpoint)], 0.07);
  EXPECT_DOUBLE_EQ(metrics.last().seconds, 0.03);
}

TEST(Metrics, RatesAreZeroWhereNothingWasMeasured) {
  const StepMetrics empty;
  EXPECT_EQ(empty.tokens_per_second(), 0);
  EXPECT_EQ(empty.utilisation(), 0);
  EXPECT_EQ(empty.bytes_per_second(), 0);
}

TEST(Metrics, AFileThatCannotBeWrittenIsAnError) {
  try {
    Metrics metrics("/no-such-folder/metrics.jsonl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_EQ(error.place(), "open /no-such-folder/metrics.jsonl");
  }
}

TEST(Metrics, AFileThatExistsIsNotWrittenInto) {
  const TempFolder folder;
  folder.write("metrics.jsonl", "mine\n");
  try {
    Metrics metrics(folder.file("metrics.jsonl"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::conflict);
    EXPECT_EQ(error.place(), folder.file("metrics.jsonl"));
  }
  EXPECT_EQ(folder.read("metrics.jsonl"), "mine\n");
}

TEST(Metrics, AFullDeviceIsAnErrorWithTheSystemsWords) {
  Metrics metrics("/dev/full");
  metrics.begin_step(0);
  try {
    metrics.end_step();
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::io);
    EXPECT_EQ(error.place(), "write /dev/full");
    EXPECT_EQ(error.detail(), "No space left on device");
  }
}

TEST(MetricsDeathTest, ScopesDoNotNest) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Metrics metrics("");
  const Metrics::Scope outer(metrics, Part::forward);
  EXPECT_DEATH(Metrics::Scope(metrics, Part::backward), "do not nest");
}

}  // namespace
}  // namespace shardproof

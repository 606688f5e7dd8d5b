// ctest: unit
#include "trace/import/import_scalars.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/expect_error.h"
#include "base/temp_folder.h"
#include "trace/import/event_file.h"
#include "trace/missing.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

const std::string titan_log =
    "[titan] - step:  1  loss:  8.0277  grad_norm:  1.4604  tps: 5,756\n"
    "[titan] - step:  2  loss:  7.5000  grad_norm:  1.4000  tps: 5,756\n"
    "[titan] - Training completed\n";

class ImportScalars : public ::testing::Test {
 protected:
  Trace import(ScalarFormat format, const std::string& file, const ScalarOptions& options = {}) {
    const std::string directory = folder_.file("trace" + std::to_string(next_++));
    said_ = import_scalars(format, folder_.file(file), directory, options);
    return read_trace(directory);
  }
  bool said(const std::string& words) const {
    for (const std::string& line : said_.said) {
      if (line.find(words) != line.npos) return true;
    }
    return false;
  }

  TempFolder folder_;
  ImportedScalars said_;
  int next_ = 0;
};

TEST_F(ImportScalars, WritesWhatWasThereAndSaysWhatWasNot) {
  folder_.write("train.log", titan_log);
  const Trace trace = import(ScalarFormat::torchtitan, "train.log");
  ASSERT_EQ(trace.ranks.size(), 1u);
  EXPECT_EQ(trace.world(), 1);
  const RankTrace& rank = trace.ranks[0];
  EXPECT_EQ(rank.run["imported"], "torchtitan");
  EXPECT_EQ(rank.run["source"], "train.log");
  EXPECT_EQ(rank.run["tensors"], "not verified");
  EXPECT_EQ(rank.run["scalars"]["loss"]["digits"], "4 decimals");
  EXPECT_FALSE(rank.run["scalars"].contains("lr"));
  EXPECT_EQ(rank.run["first_step"], 1);
  EXPECT_FALSE(rank.run.contains("end"));
  EXPECT_EQ(rank.ended, 2);
  ASSERT_EQ(rank.steps.size(), 2u);
  EXPECT_EQ(rank.steps[0].step, 0) << "a trace counts from 0";
  EXPECT_EQ(rank.steps[0].loss, 8.0277);
  EXPECT_EQ(rank.steps[1].grad_norm, 1.4);
  EXPECT_TRUE(std::isnan(rank.steps[0].lr));
  EXPECT_TRUE(is_missing(rank.steps[0], "lr"));
  EXPECT_TRUE(is_missing(rank.steps[0], "samples"));
  EXPECT_FALSE(is_missing(rank.steps[0], "loss"));
  EXPECT_EQ(said_.steps, 2);
  EXPECT_TRUE(said("loss (\"loss\", 4 decimals)"));
  EXPECT_TRUE(said("not there: lr"));
  EXPECT_TRUE(said("tensors: not verified"));
}

TEST_F(ImportScalars, SaysHowTheSourceEnded) {
  folder_.write("cut.log", titan_log.substr(0, titan_log.find("[titan] - Training") + 9));
  const Trace cut = import(ScalarFormat::torchtitan, "cut.log");
  EXPECT_EQ(cut.ranks[0].ended, std::nullopt);
  EXPECT_EQ(cut.ranks[0].run["torn"], true);
  EXPECT_FALSE(cut.ranks[0].run.contains("end")) << "torchtitan says when it ends";
  EXPECT_TRUE(said("torn"));
  EXPECT_TRUE(said("did not end"));
  folder_.write("golden.json",
                R"({"lm loss": {"end_step": 2, "values": {"1": 10.5, "2": 10.25}}})");
  const Trace golden = import(ScalarFormat::megatron, "golden.json");
  EXPECT_EQ(golden.ranks[0].ended, std::nullopt);
  EXPECT_EQ(golden.ranks[0].run["end"], "not known");
  EXPECT_TRUE(said("whether the run ended is not known"));
}

TEST_F(ImportScalars, StepsCountFromTheSourcesFirst) {
  folder_.write("golden.json",
                R"({"lm loss": {"end_step": 9, "values": {"4": 10.5, "5": 10.25}}})");
  EXPECT_EQ(import(ScalarFormat::megatron, "golden.json").step_numbers(),
            (std::vector<std::int64_t>{3, 4}));
  ScalarOptions options;
  options.first_step = 4;
  EXPECT_EQ(import(ScalarFormat::megatron, "golden.json", options).step_numbers(),
            (std::vector<std::int64_t>{0, 1}));
  options.first_step = 5;
  expect_error(ErrorKind::bad_input, {"golden.json", "step 4", "first step, 5"},
               [&] { import(ScalarFormat::megatron, "golden.json", options); });
}

// The trace's own float32 values come back bit for bit, exported and imported.
TEST_F(ImportScalars, TakesBackWhatWasExported) {
  folder_.write("train.log", titan_log);
  const Trace trace = import(ScalarFormat::torchtitan, "train.log");
  write_events(trace, folder_.file("tfevents.1"));
  const Trace back = import(ScalarFormat::tensorboard, "tfevents.1");
  ASSERT_EQ(back.step_numbers(), trace.step_numbers());
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(back.ranks[0].steps[i].loss,
              static_cast<double>(static_cast<float>(trace.ranks[0].steps[i].loss)));
    EXPECT_TRUE(is_missing(back.ranks[0].steps[i], "lr"));
  }
  EXPECT_EQ(back.ranks[0].run["scalars"]["loss"]["digits"], "float32");
}

TEST_F(ImportScalars, LeavesNothingWhereItFails) {
  folder_.write("bad.log", "step: 1  loss: 8,0\n");
  EXPECT_EQ(error_of([&] { import(ScalarFormat::torchtitan, "bad.log"); }).kind(),
            ErrorKind::corrupt);
  EXPECT_FALSE(std::filesystem::exists(folder_.file("trace0")));
  folder_.write("train.log", titan_log);
  import(ScalarFormat::torchtitan, "train.log");
  const std::string first = folder_.read("trace1/rank_00000.jsonl");
  expect_error(ErrorKind::conflict, {"trace1/rank_00000.jsonl", "a trace already"}, [&] {
    import_scalars(ScalarFormat::torchtitan, folder_.file("train.log"), folder_.file("trace1"));
  });
  EXPECT_EQ(folder_.read("trace1/rank_00000.jsonl"), first);
}

TEST(ScalarFormats, HaveNames) {
  for (const char* each : {"torchtitan", "megatron", "tensorboard"}) {
    EXPECT_EQ(name(scalar_format_from_name(each)), each);
  }
  expect_error(ErrorKind::bad_input, {"wandb", "torchtitan, megatron, tensorboard"},
               [] { scalar_format_from_name("wandb"); });
}

}  // namespace
}  // namespace shardproof

// ctest: unit
// Files as Megatron-LM's functional tests have them: values by iteration, and the lists until 2024.
#include "trace/import/megatron_golden.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

struct Read {
  ScalarLog log;
  std::int64_t first_step = -1;
};

Read read(const std::string& text, const ScalarOptions& options = {}) {
  TempFolder folder;
  folder.write("golden.json", text);
  Read out;
  out.log = read_megatron_golden(folder.file("golden.json"), options, out.first_step);
  return out;
}

void expect_damage(const std::string& text, std::initializer_list<std::string_view> parts) {
  expect_error(ErrorKind::corrupt, parts, [&] { read(text); });
}

const std::string by_iteration = R"({
  "lm loss": {"start_step": 1, "end_step": 5, "step_interval": 1,
    "values": {"1": 10.51204, "2": 10.5245, "4": "nan", "5": 10}},
  "num-zeros": {"start_step": 1, "end_step": 5, "step_interval": 1, "values": {"1": 2332.0}},
  "learning-rate": {"start_step": 1, "end_step": 5, "step_interval": 1,
    "values": {"1": 1.5e-05, "2": 1e-07}}})";

TEST(MegatronGolden, ValuesByIteration) {
  const Read found = read(by_iteration);
  EXPECT_EQ(found.first_step, 1);
  ASSERT_EQ(found.log.steps.size(), 3u) << "\"nan\" is the word for: nothing was logged";
  EXPECT_EQ(found.log.steps[0].step, 1);
  EXPECT_EQ(found.log.steps[0].values[0], 10.51204);
  EXPECT_EQ(found.log.steps[0].values[1], std::nullopt);
  EXPECT_EQ(found.log.steps[0].values[2], 1.5e-05);
  EXPECT_EQ(found.log.steps[2].step, 5);
  EXPECT_EQ(found.log.steps[2].values[0], 10.0);
  EXPECT_EQ(found.log.steps[2].values[2], std::nullopt);
  EXPECT_EQ(found.log.tags[0], "lm loss");
  EXPECT_EQ(found.log.digits[0], "5 decimals") << "the tool rounds to five, and drops zeros";
  EXPECT_EQ(found.log.digits[2], "6 decimals to 7 decimals");
  EXPECT_EQ(found.log.ended, std::nullopt);
}

TEST(MegatronGolden, Lists) {
  const Read found =
      read(R"({"lm loss": {"start_step": 0, "end_step": 50, "step_interval": 5,)"
           R"( "values": [10.42107, 10.42897, 10.43577]}, "iteration_timing_avg": 1.896})");
  EXPECT_EQ(found.first_step, 0);
  ASSERT_EQ(found.log.steps.size(), 3u);
  EXPECT_EQ(found.log.steps[1].step, 5);
  EXPECT_EQ(found.log.steps[1].values[0], 10.42897);
}

TEST(MegatronGolden, NamesTagAndStepOfWhatIsWrong) {
  expect_error(ErrorKind::bad_input, {"golden.json", "no loss", "found iteration-time, mem"},
               [] { read(R"({"iteration-time": {}, "mem": {}})"); });
  ScalarOptions options;
  options.loss_tags = {"num-zeros"};
  EXPECT_EQ(read(by_iteration, options).log.steps[0].values[0], 2332.0);
  const auto loss = [](const std::string& members) { return "{\"lm loss\": {" + members + "}}"; };
  const std::string ends = R"("start_step":0,"end_step":9,"step_interval":5,)";
  expect_damage(loss(R"("values": {"1": 2})"), {"golden.json: lm loss", "end_step"});
  expect_damage(loss(ends + R"("values": 3)"), {"lm loss", "an object or an array"});
  expect_damage(loss(ends + R"("values": {"one": 3})"), {"iteration \"one\""});
  expect_damage(loss(ends + R"("values": {"-1": 3})"), {"iteration \"-1\""});
  expect_damage(loss(ends + R"("values": {"1": "inf"})"), {"lm loss of step 1", "\"inf\""});
  expect_damage(loss(ends + R"("values": [1, null])"), {"lm loss of step 5", "null"});
  expect_damage(loss(ends + R"("values": [1, 2, 3])"), {"3 values go beyond \"end_step\", 9"});
  expect_damage(loss(R"("start_step":0,"end_step":9,"step_interval":0,"values": [1])"),
                {"step_interval"});
  expect_damage(loss(R"("start_step":-1,"end_step":9,"step_interval":1,"values": [1])"),
                {"start_step"});
  expect_damage(R"({"lm loss": {"values": {"1": 2}, "end_step": 2}, "lr": {"values": [1],)"
                R"("end_step": 2, "start_step": 0, "step_interval": 1}})",
                {"lists of values"});
  expect_error(ErrorKind::bad_input, {"golden.json"}, [] { read("[1, 2]"); });
  expect_error(ErrorKind::bad_input, {"golden.json:1"}, [] { read("{\"lm loss\": "); });
  expect_error(ErrorKind::bad_input, {"golden.json:1"}, [] { read("{\"a\": 1, \"a\": 2}"); });
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/expect_error.h"
#include "train/config.h"
#include "train/config_testing.h"

namespace shardproof {
namespace {

TEST(ConfigLine, NamesWhatIsNotAtItsDefaultInStructOrder) {
  EXPECT_EQ(case_line(Config{}), "");
  EXPECT_EQ(run_line(Config{}), "run.layout=dp4.zero1");
  Config config;
  config.run.layout = "dp2.zero1";
  config.training.steps = 10;
  config.model.width = 64;
  config.checkpoint.directory = "/tmp/c d";
  config.optimizer.lr = 0.001;
  EXPECT_EQ(case_line(config), "model.width=64 training.steps=10 optimizer.lr=0.001");
  EXPECT_EQ(run_line(config),
            "model.width=64 training.steps=10 optimizer.lr=0.001 "
            "checkpoint.directory=\"/tmp/c d\" run.layout=dp2.zero1");
}

RC_GTEST_PROP(ConfigLine, ARunLineParsesBackAndFitsBetweenSingleQuotes, ()) {
  const Config config = any_config();
  const std::string line = run_line(config);
  RC_ASSERT(parse_run_line(line) == config);
  RC_ASSERT(line.find_first_of("'\n") == line.npos);
  Config only_case = config;
  only_case.run = RunSection{};
  only_case.data.remix = false;
  only_case.checkpoint = CheckpointSection{};
  only_case.parallel = ParallelSection{};
  only_case.guard = GuardSection{};
  RC_ASSERT(parse_run_line(case_line(config)) == only_case);
}

TEST(ConfigLine, BlanksAroundWordsDoNotMatter) {
  EXPECT_EQ(parse_run_line("  training.steps=3 \t model.width=64\n").training.steps, 3);
  EXPECT_EQ(parse_run_line(""), Config{});
}

TEST(ConfigLine, SetTakesEachKindOfValue) {
  Config config;
  set_key(config, "training.steps=10");
  set_key(config, "optimizer.lr=1e-4");
  set_key(config, "training.clip=2");
  set_key(config, "data.packed=true");
  set_key(config, "data.path=my file.txt");
  set_key(config, "checkpoint.directory=\"a\\\"b\"");
  set_key(config, "optimizer.no_decay=[\"a\", \"b c\"]");
  set_key(config, "parallel.stage_layers=[3, 5]");
  set_key(config, "run.fault=");
  EXPECT_EQ(config.training.steps, 10);
  EXPECT_EQ(config.optimizer.lr, 1e-4);
  EXPECT_EQ(config.training.clip, 2.0);
  EXPECT_TRUE(config.data.packed);
  EXPECT_EQ(config.data.path, "my file.txt");
  EXPECT_EQ(config.checkpoint.directory, "a\"b");
  EXPECT_EQ(config.optimizer.no_decay, (std::vector<std::string>{"a", "b c"}));
  EXPECT_EQ(config.parallel.stage_layers, (std::vector<int>{3, 5}));
  EXPECT_EQ(config.run.fault, "");
}

TEST(ConfigLine, AWrongSetNamesItselfAndChangesNothing) {
  struct Case {
    std::string_view text;
    std::string_view part;
  };
  const Case cases[] = {
      {"training.steps", "expected section.key=value"},
      {"", "expected section.key=value"},
      {"steps=3", "unknown key steps; the nearest known one is training.steps"},
      {"training.stesp=3", "unknown key training.stesp; the nearest known one is training.steps"},
      {"training.steps=", "found \"\"; expected an integer >= 1"},
      {"training.steps=3x", "found \"3x\"; expected an integer"},
      {"training.steps=3.0", "found \"3.0\"; expected an integer"},
      {"training.steps=99999999999", "found 99999999999; expected an integer"},
      {"training.steps=0", "found 0; expected an integer >= 1 and <= 2147483647"},
      {"optimizer.lr=nan", "optimizer.lr: found nan; expected a number >= 0"},
      {"optimizer.lr=-inf", "optimizer.lr: found -inf; expected a number >= 0"},
      {"run.deadline=1e300", "run.deadline: found 1e+300; expected a number > 0 and <= 86400"},
      {"optimizer.lr=fast", "found \"fast\"; expected a number"},
      {"optimizer.lr=nan", "expected a number"},
      {"data.packed=yes", "found \"yes\"; expected true or false"},
      {"data.kind=words", "found \"words\"; expected one of synthetic, text, tokens"},
      {"optimizer.no_decay=x", "found \"x\"; expected a list of texts"},
      {"optimizer.no_decay=[1]", "found [1]; expected a list of texts"},
      {"parallel.stage_layers=3", "found \"3\"; expected a list of integers >= 1"},
      {"parallel.stage_layers=[2,0]", "found [2,0]; expected a list of integers >= 1"},
      {"parallel.stage_layers=[1.5]", "found [1.5]; expected a list of integers"},
      {"data.path=\"open", "--set data.path=\"open"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(std::string(each.text));
    Config config;
    Origins origins;
    expect_error(ErrorKind::bad_input, {"--set", each.text, each.part},
                 [&] { set_key(config, each.text, &origins); });
    EXPECT_EQ(config, Config{});
    EXPECT_TRUE(origins.empty());
  }
  Config config;
  expect_error(ErrorKind::bad_input, {"--set", "not UTF-8"},
               [&] { set_key(config, "data.path=\xff"); });
}

TEST(ConfigLine, AWrongRunLineIsRefused) {
  expect_error(ErrorKind::bad_input, {"run line", "training.steps=4", "given twice"},
               [] { parse_run_line("training.steps=3 training.steps=4"); });
  expect_error(ErrorKind::bad_input, {"run line", "double quote is not closed", "\"a b"},
               [] { parse_run_line("data.path=\"a b"); });
  expect_error(ErrorKind::bad_input, {"unknown key training.stesp"},
               [] { parse_run_line("training.stesp=3"); });
  expect_error(ErrorKind::bad_input, {"expected section.key=value"},
               [] { parse_run_line("training.steps = 3"); });
}

}  // namespace
}  // namespace shardproof

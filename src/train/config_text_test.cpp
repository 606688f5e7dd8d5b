// ctest: unit
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/expect_error.h"
#include "train/config.h"
#include "train/config_testing.h"

namespace shardproof {
namespace {

using Parts = std::initializer_list<std::string_view>;

void expect_toml_refusal(const std::string& text, Parts parts) {
  SCOPED_TRACE(text);
  expect_error(ErrorKind::bad_input, parts, [&] { parse_toml(text, "run.toml"); });
}

void expect_json_refusal(const std::string& text, Parts parts) {
  SCOPED_TRACE(text);
  expect_error(ErrorKind::bad_input, parts, [&] { parse_config_json(text, "run.json"); });
}

TEST(ConfigText, AnEmptyFileIsTheDefault) {
  EXPECT_EQ(parse_toml("", "run.toml"), Config{});
  EXPECT_EQ(parse_config_json("{}", "run.json"), Config{});
}

TEST(ConfigText, ReadsEveryKindOfValue) {
  Config expected;
  expected.training.steps = 7;
  expected.training.clip = 2;
  expected.data.packed = true;
  expected.data.path = "a b";
  expected.optimizer.no_decay = {"x", "y z"};
  expected.optimizer.epsilon = 1e-6;
  EXPECT_EQ(parse_toml("[training]\nsteps = 7\nclip = 2\n"
                       "[data]\npacked = true\npath = 'a b'\n"
                       "[optimizer]\nno_decay = ['x', \"y z\"]\nepsilon = 1e-6\n",
                       "run.toml"),
            expected);
  EXPECT_EQ(parse_config_json(R"({"training": {"steps": 7, "clip": 2},
                                  "data": {"packed": true, "path": "a b"},
                                  "optimizer": {"no_decay": ["x", "y z"], "epsilon": 1e-6}})",
                              "run.json"),
            expected);
  EXPECT_EQ(parse_toml("training.steps = 7", "run.toml").training.steps, 7);
  EXPECT_EQ(parse_toml("training = {steps = 7}", "run.toml").training.steps, 7);
}

RC_GTEST_PROP(ConfigText, WhatIsPrintedParsesBack, ()) {
  const Config config = any_config();
  RC_ASSERT(parse_toml(to_toml(config), "run.toml") == config);
  RC_ASSERT(parse_config_json(to_json(config).dump(), "run.json") == config);
  RC_ASSERT(parse_config_json(to_json(config).dump(2), "run.json") == config);
}

TEST(ConfigText, PrintsEveryKeyWithASentence) {
  const std::string text = to_toml(Config{});
  EXPECT_NE(text.find("[model]\nlayers = 2  # transformer blocks\n"), text.npos) << text;
  EXPECT_NE(text.find("\n\n[training]\nsteps = 20  # optimizer steps\n"), text.npos) << text;
  EXPECT_NE(text.find("no_decay = [\"*.bias\",\"*ln*\",\"pos.weight\"]"), text.npos) << text;
}

TEST(ConfigText, TomlMistakesNameFileLineKeyAndExpectation) {
  expect_toml_refusal(
      "[training]\nsteps = 1\nstesp = 2\n",
      {"run.toml:3", "unknown key training.stesp", "the nearest known one is training.steps"});
  expect_toml_refusal("[model]\nglobal_batch = 2\n",
                      {"run.toml:2", "model.global_batch", "training.global_batch"});
  expect_toml_refusal("\n[trainig]\nsteps = 1\n",
                      {"run.toml:2", "unknown section [trainig]", "[training]"});
  expect_toml_refusal("steps = 1\n", {"run.toml:1", "unknown key steps;", "training.steps"});
  expect_toml_refusal("model = 3\n", {"run.toml:1", "unknown key model"});
  expect_toml_refusal("[model]\n[model.deep]\nx = 1\n", {"run.toml:2", "model.deep"});
  expect_toml_refusal("[training]\nsteps = 1.5\n",
                      {"run.toml:2", "training.steps: found 1.5; expected an integer >= 1"});
  expect_toml_refusal("[training]\nsteps = 0\n", {"run.toml:2", "training.steps: found 0"});
  expect_toml_refusal("[training]\nsteps = 3000000000\n", {"training.steps: found 3000000000"});
  expect_toml_refusal("[training]\nsteps = \"3\"\n", {"found \"3\"; expected an integer"});
  expect_toml_refusal("[training]\nsteps = [1]\n", {"found [1]; expected an integer"});
  expect_toml_refusal("[training]\nsteps = {a = 1}\n", {"found a section; expected an integer"});
  expect_toml_refusal("[optimizer]\nlr = true\n", {"optimizer.lr: found true; expected a number"});
  expect_toml_refusal("[optimizer]\nlr = nan\n",
                      {"optimizer.lr: found nan; expected a number >= 0"});
  expect_toml_refusal("[data]\npath = nan\n", {"data.path: found nan; expected a text"});
  expect_toml_refusal("[optimizer]\nno_decay = [1]\n", {"found [1]; expected a list of texts"});
  expect_toml_refusal("[data]\npacked = 1\n", {"data.packed: found 1; expected true or false"});
  expect_toml_refusal("[data]\npath = 1979-05-27\n",
                      {"run.toml:2", "data.path: found 1979-05-27; expected a text"});
  expect_toml_refusal("[data]\nkind = \"words\"\n",
                      {"found \"words\"; expected one of synthetic, text, tokens"});
  expect_toml_refusal("[data]\nlast = \"drop\"\nlast = \"short\"\n", {"run.toml:3", "not TOML"});
  expect_toml_refusal("[data]\n[data]\n", {"run.toml:2", "not TOML"});
  expect_toml_refusal("[data\n", {"run.toml:1", "not TOML"});
  expect_toml_refusal("[data]\npath = \"\xff\"\n", {"run.toml:2", "not TOML"});
}

TEST(ConfigText, JsonMistakesNameFileLineKeyAndExpectation) {
  expect_json_refusal("{\"training\": {\n \"steps\": 1,\n \"stesp\": 2}}",
                      {"run.json:3", "unknown key training.stesp", "training.steps"});
  expect_json_refusal("{\n\"trainig\": {}}", {"run.json:2", "unknown section [trainig]"});
  expect_json_refusal("{\n\n\"steps\": 1}", {"run.json:3", "unknown key steps"});
  expect_json_refusal("{\"training\": {\n\"steps\": 1.5}}",
                      {"run.json:2", "training.steps: found 1.5; expected an integer >= 1"});
  expect_json_refusal("{\"training\": {\"steps\": null}}", {"run.json:1", "found null"});
  expect_json_refusal("{\"training\": {\"steps\": 18446744073709551615}}",
                      {"found 18446744073709551615"});
  expect_json_refusal("{\"training\": {\"steps\": 1, \"steps\": 2}}", {"run.json", "steps"});
  expect_json_refusal("[]", {"run.json:1", "no object"});
  expect_json_refusal("{", {"run.json"});
}

TEST(ConfigText, OriginsNameTheLineOfEachKey) {
  Origins origins;
  parse_toml("[training]\nsteps = 3\n\n[data]\nlast = 'short'\n", "run.toml", &origins);
  EXPECT_EQ(origins, (Origins{{"training.steps", "run.toml:2"}, {"data.last", "run.toml:5"}}));
  origins.clear();
  Config config =
      parse_config_json("{\"training\":\n{\"global_batch\": 15}}", "run.json", &origins);
  expect_error(ErrorKind::bad_input, {"run.json:2", "training.global_batch: found global_batch 15"},
               [&] { check(config, origins); });
}

TEST(ConfigText, LoadsByTheEndingOfTheName) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / ("config_text_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  const std::string toml = folder / "run.toml";
  const std::string json = folder / "run.json";
  const std::string other = folder / "run.yaml";
  std::ofstream(toml) << "[training]\nsteps = 3\n";
  std::ofstream(json) << "{\"training\": {\"steps\": 4}}";
  std::ofstream(other) << "training:\n";
  EXPECT_EQ(load_config(toml).training.steps, 3);
  EXPECT_EQ(load_config(json).training.steps, 4);
  expect_error(ErrorKind::bad_input, {other, ".toml or .json"}, [&] { load_config(other); });
  expect_error(ErrorKind::bad_input, {"absent.toml", "cannot be read"},
               [&] { load_config((folder / "absent.toml").string()); });
  std::filesystem::create_directory(folder / "folder.toml");
  expect_error(ErrorKind::bad_input, {"folder.toml", "is not a regular file"},
               [&] { load_config((folder / "folder.toml").string()); });
  const std::string pipe = folder / "pipe.toml";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error(ErrorKind::bad_input, {pipe, "is not a regular file"}, [&] { load_config(pipe); });
  std::ofstream(folder / "empty.toml").close();
  EXPECT_EQ(load_config((folder / "empty.toml").string()), Config{});
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardproof

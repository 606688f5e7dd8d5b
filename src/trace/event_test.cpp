// ctest: unit
#include "trace/event.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "base/digest.h"
#include "base/expect_error.h"
#include "trace/missing.h"

namespace shardproof {
namespace {

TEST(Phase, NamesRoundTripAndOthersAreRefused) {
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::reduced, Phase::clipped,
                            Phase::optimizer, Phase::save}) {
    EXPECT_EQ(phase_from_name(name(phase)), phase);
  }
  EXPECT_EQ(name(Phase::reduced), "reduced");
  for (const char* bad : {"", "Forward", "forward ", "step"}) {
    const Error error = error_of([&] { phase_from_name(bad); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_NE(error.detail().find("backward"), std::string::npos);
  }
}

StepRecord typical_step() {
  StepRecord record;
  record.step = 7;
  record.loss = 4.5;
  record.grad_norm = 0.5;
  record.lr = 0.25;
  record.tokens = 41;
  record.samples = {224, 226};
  return record;
}

TEST(StepEvent, HasTheDocumentedForm) {
  EXPECT_EQ(to_json(typical_step()).dump(),
            R"({"kind":"step","step":7,"loss":4.5,"loss_bits":"4012000000000000",)"
            R"("grad_norm":0.5,"grad_norm_bits":"3fe0000000000000",)"
            R"("lr":0.25,"lr_bits":"3fd0000000000000","tokens":41,"samples":[224,226],)"
            R"("skipped":false})");
}

std::uint64_t bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

RC_GTEST_PROP(StepEvent, RoundTripThroughText, ()) {
  const auto word = rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
  StepRecord record;
  record.step = *rc::gen::arbitrary<std::int64_t>();
  record.loss = std::bit_cast<double>(*word);  // NaN with its payload and infinities included
  record.grad_norm = std::bit_cast<double>(*word);
  record.lr = std::bit_cast<double>(*word);
  record.tokens = *rc::gen::arbitrary<std::int64_t>();
  record.samples = *rc::gen::arbitrary<std::vector<std::int64_t>>();
  record.skipped = *rc::gen::arbitrary<bool>();
  record.extra = {{"note", "x"}, {"list", {1, 2}}};
  const StepRecord back = step_from_json(parse_json(to_json(record).dump(), "f"), "f:1");
  RC_ASSERT(back.step == record.step);
  RC_ASSERT(bits(back.loss) == bits(record.loss));
  RC_ASSERT(bits(back.grad_norm) == bits(record.grad_norm));
  RC_ASSERT(bits(back.lr) == bits(record.lr));
  RC_ASSERT(back.tokens == record.tokens);
  RC_ASSERT(back.samples == record.samples);
  RC_ASSERT(back.skipped == record.skipped);
  RC_ASSERT(back.extra == record.extra);
}

TEST(StepEvent, BitsAreTheValueAndTheNumberMayBeRounded) {
  Json line = to_json(typical_step());
  line["loss"] = 4.31;
  line["loss_bits"] = "40113f83716aefcc";
  EXPECT_EQ(bits(step_from_json(line, "f:1").loss), 0x40113f83716aefccu);
  line["loss"] = nullptr;
  EXPECT_EQ(bits(step_from_json(line, "f:1").loss), 0x40113f83716aefccu);
  line.erase("loss_bits");
  EXPECT_NE(error_of([&] { step_from_json(line, "f:1"); }).detail().find("\"loss\""),
            std::string::npos);
  line["loss"] = 3;
  EXPECT_EQ(step_from_json(line, "f:1").loss, 3.0);
}

// number, bits' value, whether the number may stand for it
TEST(StepEvent, ANumberThatContradictsItsBitsIsRefused) {
  const struct {
    Json number;
    double value;
    bool good;
  } cases[] = {{4.31, 4.3148, true},
               {4.31, 4.3153, false},
               {4.31, -4.31, false},
               {4.31, 3.31, false},
               {5, 4.6, true},
               {4, 4.6, false},
               {0, 2.4e-5, true},
               {0.0, 0.6, false},
               {2.5e-5, 2.54e-5, true},
               {2.5e-5, 2.56e-5, false},
               {1.23e6, 1234567, true},
               {1.23e6, 1235001, false},
               {-0.5, -0.51, true},
               {0.1, 0.1, true},
               {0.0, -0.0, true},
               {static_cast<double>(0.1f), 0.1, false},
               {1e300, 1e-300, false},
               {"4.31", 4.31, false},
               {4.31, std::nan(""), false},
               {true, 1, false},
               {4.31, INFINITY, false},
               {nullptr, std::nan(""), true}};
  for (const std::string key : {"loss", "grad_norm", "lr"}) {
    for (const auto& each : cases) {
      Json line = to_json(typical_step());
      line[key] = each.number;
      line[key + "_bits"] = bits_hex(each.value);
      if (each.good) {
        EXPECT_NO_THROW(step_from_json(line, "f:1")) << line.dump();
        continue;
      }
      const Error error = error_of([&] { step_from_json(line, "rank_00000.jsonl:7"); });
      EXPECT_EQ(error.kind(), ErrorKind::corrupt) << line.dump();
      EXPECT_EQ(error.place(), "rank_00000.jsonl:7");
      EXPECT_NE(error.detail().find("\"" + key + "\" is "), std::string::npos) << error.what();
      EXPECT_NE(error.detail().find("\"" + key + "_bits\""), std::string::npos) << error.what();
    }
  }
}

// Printed with any number of digits, a value never contradicts itself.
RC_GTEST_PROP(StepEvent, RoundedNumbersAreAccepted, ()) {
  const auto word = *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
  const auto value = std::bit_cast<double>(word);
  RC_PRE(std::isfinite(value));
  const int digits = *rc::gen::inRange(0, 18);
  const bool fixed = std::abs(value) < 1e15 && *rc::gen::arbitrary<bool>();
  std::array<char, 400> text;
  std::snprintf(text.data(), text.size(), fixed ? "%.*f" : "%.*e", digits, value);
  const double shown = std::strtod(text.data(), nullptr);
  RC_PRE(std::isfinite(shown));
  Json line = to_json(typical_step());
  line["loss"] = shown;
  line["loss_bits"] = bits_hex(value);
  RC_ASSERT(bits(step_from_json(line, "f:1").loss) == word);
}

TEST(StepEvent, ADigestOfSamplesIsKept) {
  Json line = to_json(typical_step());
  line["samples"] = {{"digest", "ab"}, {"count", 9}};
  const StepRecord record = step_from_json(line, "f:1");
  EXPECT_TRUE(record.samples.empty());
  EXPECT_EQ(record.extra["samples"]["count"], 9);
  EXPECT_EQ(to_json(record)["samples"], line["samples"]);
}

TEST(StepEvent, EveryMissingKeyIsNamed) {
  for (const char* key : {"step", "tokens", "samples"}) {
    Json line = to_json(typical_step());
    line.erase(key);
    const Error error = error_of([&] { step_from_json(line, "rank_00000.jsonl:7"); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_EQ(error.place(), "rank_00000.jsonl:7");
    EXPECT_EQ(error.detail(), "\"" + std::string(key) + "\" is missing");
  }
  for (const std::string key : {"loss", "grad_norm", "lr"}) {
    Json line = to_json(typical_step());
    line.erase(key);
    EXPECT_NO_THROW(step_from_json(line, "f:1")) << "the bits suffice";
    line.erase(key + "_bits");
    EXPECT_EQ(error_of([&] { step_from_json(line, "f:1"); }).detail(),
              "\"" + key + "\" is missing");
  }
  Json line = to_json(typical_step());
  line.erase("skipped");
  EXPECT_FALSE(step_from_json(line, "f:1").skipped);
}

TEST(StepEvent, EveryWrongTypeIsNamed) {
  const Json wrong = {{"step", "7"},       {"loss_bits", "12"}, {"grad_norm_bits", 3},
                      {"tokens", 1.5},     {"samples", {"a"}},  {"skipped", 1},
                      {"lr_bits", nullptr}};
  for (const auto& item : wrong.items()) {
    Json line = to_json(typical_step());
    line[item.key()] = item.value();
    const Error error = error_of([&] { step_from_json(line, "f:1"); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_NE(error.detail().find("\"" + item.key() + "\""), std::string::npos) << error.what();
  }
}

TEST(StepEventDeathTest, ExtraKeysMustBeNew) {
  StepRecord record = typical_step();
  record.extra["loss"] = 3;
  EXPECT_DEATH(to_json(record), "extra key loss");
}

TensorRecord typical_tensor() {
  TensorRecord record;
  record.step = 3;
  record.what = "moment";
  record.place = {"w/exp_avg", {4, 1024}, 1, {{2, 0}, {2, 1024}}, true, {1024, 2000}};
  record.dtype = Dtype::bf16;
  record.blocks = {sha256("x").hex()};
  record.norm = 2;
  return record;
}

TEST(TensorEvent, RunsCarryBlocks) {
  const TensorRecord record = typical_tensor();
  const Json line = to_json(record);
  EXPECT_EQ(line["range"], (Json{1024, 2000}));
  EXPECT_FALSE(line.contains("sha256"));
  const TensorRecord back = tensor_from_json(parse_json(line.dump(), "f"), "f:1");
  EXPECT_EQ(back.step, 3);
  EXPECT_EQ(back.what, "moment");
  EXPECT_EQ(back.place.name, "w/exp_avg");
  EXPECT_EQ(back.place.global_shape, (Shape{4, 1024}));
  EXPECT_EQ(back.place.piece, 1);
  EXPECT_EQ(back.place.box, record.place.box);
  EXPECT_TRUE(back.place.is_run);
  EXPECT_EQ(back.place.range, record.place.range);
  EXPECT_EQ(back.dtype, Dtype::bf16);
  EXPECT_EQ(back.blocks, record.blocks);
  EXPECT_TRUE(back.sha256.empty());
  EXPECT_EQ(back.norm, 2.0);
}

TEST(TensorEvent, BoxesCarryOneDigest) {
  TensorRecord record = typical_tensor();
  record.place.is_run = false;
  record.blocks.clear();
  record.sha256 = sha256("y").hex();
  record.norm = std::numeric_limits<double>::infinity();
  const TensorRecord back = tensor_from_json(parse_json(to_json(record).dump(), "f"), "f:1");
  EXPECT_FALSE(back.place.is_run);
  EXPECT_EQ(back.sha256, record.sha256);
  EXPECT_TRUE(back.blocks.empty());
  EXPECT_EQ(back.norm, record.norm);
}

TEST(TensorEvent, EveryMissingKeyIsNamed) {
  for (const std::string key : {"step", "what", "name", "global_shape", "box", "dtype"}) {
    Json line = to_json(typical_tensor());
    line.erase(key);
    EXPECT_EQ(error_of([&] { tensor_from_json(line, "f:1"); }).detail(),
              "\"" + key + "\" is missing");
  }
  Json line = to_json(typical_tensor());
  line.erase("blocks");
  EXPECT_EQ(error_of([&] { tensor_from_json(line, "f:1"); }).detail(), "\"sha256\" is missing");
}

TEST(TensorEvent, DamageIsRefused) {
  const std::vector<std::pair<const char*, Json>> wrong = {
      {"dtype", "F33"},
      {"box", {{"offsets", {3, 0}}, {"shape", {2, 1024}}}},
      {"range", {0, 4096}},
      {"range", {1025, 2000}},
      {"blocks", Json::array()},
      {"blocks", Json::array({"12"})},
      {"blocks", Json::array({sha256("a").hex(), sha256("b").hex()})},
      {"piece", -1},
      {"norm_bits", "x"}};
  for (const auto& [key, value] : wrong) {
    Json line = to_json(typical_tensor());
    line[key] = value;
    const Error error = error_of([&] { tensor_from_json(line, "f:1"); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt) << key << value.dump();
    EXPECT_EQ(error.place(), "f:1");
  }
}

// What a line says to lack may be absent, and that alone; it reads as NaN, and is written as it
// was.
TEST(StepEvent, MayLackWhatItSaysToLack) {
  const std::string text =
      R"({"kind":"step","step":1,"loss":4.5,"missing":["grad_norm","lr","tokens","samples"]})";
  const StepRecord record = step_from_json(parse_json(text, "f"), "f:1");
  EXPECT_EQ(record.loss, 4.5);
  EXPECT_TRUE(std::isnan(record.grad_norm));
  EXPECT_TRUE(std::isnan(record.lr));
  EXPECT_TRUE(is_missing(record, "samples"));
  EXPECT_FALSE(is_missing(record, "loss"));
  const Json line = to_json(record);
  EXPECT_FALSE(line.contains("grad_norm") || line.contains("grad_norm_bits"));
  EXPECT_FALSE(line.contains("tokens") || line.contains("samples"));
  EXPECT_EQ(to_json(step_from_json(line, "f:1")), line);
}

TEST(StepEvent, LacksNothingElse) {
  const auto read = [](const std::string& members) {
    step_from_json(parse_json(R"({"kind":"step","step":1,)" + members + "}", "f"), "f:1");
  };
  expect_error(ErrorKind::corrupt, {"f:1", "lr"},
               [&] { read(R"("loss":4.5,"grad_norm":1,"samples":[],"missing":["tokens"])"); });
  expect_error(ErrorKind::corrupt, {"f:1", "\"loss\" is there", "missing"}, [&] {
    read(R"("loss":4.5,"missing":["loss","grad_norm","lr","tokens","samples"])");
  });
  expect_error(ErrorKind::corrupt, {"f:1", "\"lr\" is there"}, [&] {
    read(R"("loss":4.5,"lr_bits":"3ff0000000000000",)"
         R"("missing":["grad_norm","lr","tokens","samples"])");
  });
  expect_error(ErrorKind::corrupt, {"f:1", "grad_norm"},
               [&] { read(R"("loss":4.5,"missing":"all")"); });  // no list: another's key
}

}  // namespace
}  // namespace shardproof

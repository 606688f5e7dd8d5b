// ctest: unit
#include "base/json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "base/expect_error.h"

namespace shardproof {
namespace {

Error parse_error(const std::string& text) {
  return error_of([&] { parse_json(text, "run.json"); });
}

TEST(ParseJson, KeepsKeyOrderAndTypes) {
  const std::string text = R"({"b":1,"a":[true,null,-2,1.5,"x"],"c":{"z":{},"y":[]}})";
  EXPECT_EQ(parse_json(text, "f").dump(), text);
  EXPECT_EQ(parse_json(" 7\n", "f"), 7);
  EXPECT_TRUE(parse_json("18446744073709551615", "f").is_number_unsigned());
}

TEST(ParseJson, NamesOriginAndLine) {
  const Error error = parse_error("{\"a\": 1,\n\n \"b\": x}");
  EXPECT_EQ(error.kind(), ErrorKind::bad_input);
  EXPECT_EQ(error.place(), "run.json:3");
  EXPECT_NE(error.detail().find("not JSON"), std::string::npos);
}

TEST(ParseJson, TheLineIsThatOfTheOffendingCharacter) {
  EXPECT_EQ(parse_error("[1,\n01\n]").place(), "run.json:2");    // a number read too far
  EXPECT_EQ(parse_error("[\n\"a\nb\"]").place(), "run.json:2");  // a newline in a string
  EXPECT_EQ(parse_error("{\n\"k\":1,\n\"k\"\n:2}").place(), "run.json:3");
  EXPECT_EQ(parse_error("").place(), "run.json:1");
}

TEST(ParseJson, KindAndFirstLineAreTheCallers) {
  const Error error = error_of([] { parse_json("{\n!", "t.jsonl", ErrorKind::corrupt, 41); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.place(), "t.jsonl:42");
}

TEST(ParseJson, RefusesADuplicateKeyAtAnyDepth) {
  EXPECT_EQ(parse_error(R"({"k":1,"k":1})").detail(), "duplicate key \"k\"");
  EXPECT_EQ(parse_error(R"([{"a":{"x":1,"y":2,"x":3}}])").detail(), "duplicate key \"x\"");
  EXPECT_EQ(parse_json(R"({"x":{"x":1},"y":{"x":1}})", "f").size(), 2u);
}

TEST(ParseJson, RefusesADuplicateKeyInALargeObject) {
  for (const int first : {0, 31, 32, 499}) {
    std::string text = "{";
    for (int i = 0; i < 500; ++i) text += "\"k" + std::to_string(i) + "\":0,";
    EXPECT_EQ(parse_json(text + "\"new\":0}", "f").size(), 501u);
    EXPECT_EQ(parse_error(text + "\"k" + std::to_string(first) + "\":0}").detail(),
              "duplicate key \"k" + std::to_string(first) + "\"");
  }
}

TEST(ParseJson, RefusesWhatIsNotJson) {
  for (const char* bad : {"",          " ",    "{",          "{} {}", "{}x",       "// c\n1",
                          "/* c */ 1", "[1,]", "{\"a\":1,}", "{a:1}", "{'a':1}",   "NaN",
                          "Infinity",  "-",    "01",         "1.",    "+1",        "\"\t\"",
                          "\"\xff\"",  "tru",  "1e999",      "[1 2]", "{\"a\" 1}", "\"\\ud800\""}) {
    EXPECT_THROW(parse_json(bad, "f"), Error) << bad;
  }
  using namespace std::literals;
  for (const auto bad : {"1\0"sv, "{}\0x"sv, "\0"sv, "\"a\0\""sv}) {
    EXPECT_THROW(parse_json(bad, "f"), Error);
  }
  EXPECT_EQ(parse_error("[1,\n2]\n"s + '\0').place(), "run.json:3");
}

TEST(ParseJson, AMessageNeverRepeatsAHugeInput) {
  EXPECT_LT(parse_error("\"" + std::string(100000, 'x')).detail().size(), 300u);
}

TEST(ParseJson, DepthLimitIsSixtyFour) {
  EXPECT_NO_THROW(parse_json(std::string(64, '[') + std::string(64, ']'), "f"));
  EXPECT_EQ(parse_error(std::string(65, '[') + std::string(65, ']')).detail(),
            "nested deeper than 64 levels");
  EXPECT_THROW(parse_json(std::string(10000000, '['), "f"), Error);
  std::string objects;
  for (int i = 0; i < 65; ++i) objects += "{\"a\":";
  EXPECT_EQ(parse_error(objects).detail(), "nested deeper than 64 levels");
  std::string many = "[";
  for (int i = 0; i < 100; ++i) many += "[],";
  EXPECT_EQ(parse_json(many + "[]]", "f").size(), 101u);  // breadth is not depth
}

// A value drawn at random, at most four levels deep.
Json draw_value(int depth) {
  switch (*rc::gen::inRange(0, depth < 4 ? 7 : 5)) {
    case 0:
      return nullptr;
    case 1:
      return *rc::gen::arbitrary<bool>();
    case 2:
      return *rc::gen::arbitrary<std::int64_t>();
    case 3:
      return static_cast<double>(*rc::gen::arbitrary<std::int32_t>()) / 7;
    case 4:
      return *rc::gen::container<std::string>(rc::gen::inRange<char>(1, 127));
    case 5: {
      Json array = Json::array();
      for (int i = *rc::gen::inRange(0, 5); i > 0; --i) array.push_back(draw_value(depth + 1));
      return array;
    }
    default: {
      Json object = Json::object();
      for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
        object["key" + std::to_string(i)] = draw_value(depth + 1);
      }
      return object;
    }
  }
}

RC_GTEST_PROP(ParseJson, WhatIsPrintedComesBack, ()) {
  const Json value = draw_value(0);
  RC_ASSERT(parse_json(value.dump(), "f") == value);
  RC_ASSERT(parse_json(value.dump(2), "f").dump() == value.dump());
}

RC_GTEST_PROP(ParseJson, DamageGivesAnErrorOrAValue, ()) {
  std::string text = draw_value(0).dump();
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
  }
  try {
    const Json value = parse_json(text, "f");
    RC_ASSERT(parse_json(value.dump(), "f").dump() == value.dump());
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::bad_input);
    RC_ASSERT(error.place().starts_with("f:"));
  }
}

TEST(BitsHex, IsTheBigEndianPattern) {
  EXPECT_EQ(bits_hex(1.0), "3ff0000000000000");
  EXPECT_EQ(bits_hex(-0.0), "8000000000000000");
  EXPECT_EQ(bits_hex(std::numeric_limits<double>::denorm_min()), "0000000000000001");
  EXPECT_EQ(from_bits_hex("40113F83716AEFCC"), from_bits_hex("40113f83716aefcc"));
}

RC_GTEST_PROP(BitsHex, RoundTrip, ()) {
  const auto pattern = *rc::gen::resize(rc::kNominalSize, rc::gen::arbitrary<std::uint64_t>());
  const double value = std::bit_cast<double>(pattern);
  RC_ASSERT(std::bit_cast<std::uint64_t>(from_bits_hex(bits_hex(value))) == pattern);
}

TEST(BitsHex, RefusesAnythingElse) {
  for (const char* bad : {"", "3ff000000000000", "3ff00000000000000", "3ff000000000000g",
                          "0x3ff00000000000", " 3ff00000000000", "-3ff000000000000"}) {
    EXPECT_EQ(error_of([&] { from_bits_hex(bad); }).kind(), ErrorKind::bad_input) << bad;
  }
}

TEST(Member, ReturnsWhatIsThere) {
  const Json object = parse_json(R"({"s":"x","i":-3,"n":null})", "f");
  EXPECT_EQ(string_member(object, "s", "p"), "x");
  EXPECT_EQ(integer_member(object, "i", "p"), -3);
  EXPECT_TRUE(member(object, "n", "p").is_null());
}

TEST(Member, NamesPlaceAndKeyWhenMissing) {
  const Error error = error_of([] { member(Json::object(), "step", "rank_00000.jsonl:7"); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.place(), "rank_00000.jsonl:7");
  EXPECT_EQ(error.detail(), "\"step\" is missing");
  EXPECT_EQ(error_of([] { member(Json(3), "step", "p"); }).detail(),
            "expected an object with \"step\", found number");
}

TEST(Member, RefusesAnotherType) {
  const Json object = parse_json(
      R"({"s":"x","d":1.0,"b":true,"max":9223372036854775807,"big":9223372036854775808})", "f");
  EXPECT_EQ(integer_member(object, "max", "p"), std::numeric_limits<std::int64_t>::max());
  for (const char* key : {"s", "d", "b", "big"}) {
    const Error error = error_of([&] { integer_member(object, key, "p"); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_NE(error.detail().find(key), std::string::npos);
  }
  EXPECT_EQ(error_of([&] { string_member(object, "d", "p"); }).detail(),
            "\"d\": expected a string, found number");
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "base/safetensors.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <limits>

#include "base/error.h"

namespace shardproof {
namespace {

std::string with_prefix(const std::string& json) {
  std::string head;
  for (int i = 0; i < 8; ++i) head += static_cast<char>(json.size() >> 8 * i);
  return head + json;
}

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors(std::as_bytes(std::span(file)), file.size(), "x.safetensors");
}

// A file with this header text and `data_bytes` of data.
SafetensorsHeader parse(const std::string& json, std::size_t data_bytes) {
  return parse(with_prefix(json) + std::string(data_bytes, '\0'));
}

Error parse_error(const std::string& file) {
  try {
    parse(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt) << error.what();
    EXPECT_EQ(error.place().rfind("x.safetensors", 0), 0u) << error.place();
    return error;
  }
  ADD_FAILURE() << "no Error";
  return Error(ErrorKind::io, "none", "none");
}

Error parse_error(const std::string& json, std::size_t data_bytes) {
  return parse_error(with_prefix(json) + std::string(data_bytes, '\0'));
}

// What every accepted header must satisfy, whatever the file was.
void check_consistent(const SafetensorsHeader& header, std::uint64_t file_bytes) {
  RC_ASSERT(header.data_begin >= 8u);
  RC_ASSERT(header.data_begin <= file_bytes);
  std::uint64_t at = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    RC_ASSERT(entry.begin == at);
    std::uint64_t bytes = size_of(entry.dtype);
    for (const std::int64_t extent : entry.shape) {
      RC_ASSERT(extent >= 0);
      bytes *= static_cast<std::uint64_t>(extent);
    }
    RC_ASSERT(entry.end - entry.begin == bytes);
    RC_ASSERT(header.find(entry.name) == &entry);
    at = entry.end;
  }
  RC_ASSERT(header.data_begin + at == file_bytes);
}

std::vector<SafetensorsEntry> draw_entries() {
  std::vector<SafetensorsEntry> entries;
  const int count = *rc::gen::inRange(0, 6);
  for (int i = 0; i < count; ++i) {
    SafetensorsEntry entry;
    entry.name = "layer." + std::to_string(i) + ".\"weight\"\n";
    entry.dtype = *rc::gen::element(Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16, Dtype::i32,
                                    Dtype::i64, Dtype::u8);
    entry.shape =
        *rc::gen::resize(3, rc::gen::container<Shape>(rc::gen::inRange<std::int64_t>(0, 5)));
    entries.push_back(entry);
  }
  return entries;
}

std::string draw_file(std::vector<SafetensorsEntry>& entries) {
  const auto metadata = *rc::gen::element(std::map<std::string, std::string>{},
                                          std::map<std::string, std::string>{{"a", "{\"b\":1}"}});
  const std::string head = safetensors_head(entries, metadata);
  return head + std::string(entries.empty() ? 0 : entries.back().end, 'd');
}

RC_GTEST_PROP(Safetensors, WhatIsWrittenIsRead, ()) {
  auto entries = draw_entries();
  const std::string file = draw_file(entries);
  const SafetensorsHeader header = parse(file);
  check_consistent(header, file.size());
  RC_ASSERT(header.data_begin % 8 == 0u);
  RC_ASSERT(header.entries.size() == entries.size());
  for (const SafetensorsEntry& entry : entries) {
    const SafetensorsEntry* found = header.find(entry.name);
    RC_ASSERT(found != nullptr);
    RC_ASSERT(found->dtype == entry.dtype);
    RC_ASSERT(found->shape == entry.shape);
    RC_ASSERT(found->begin == entry.begin);
    RC_ASSERT(found->end == entry.end);
  }
}

RC_GTEST_PROP(Safetensors, ADamagedFileIsRefusedOrConsistent, ()) {
  auto entries = draw_entries();
  std::string file = draw_file(entries);
  for (int i = *rc::gen::inRange(1, 5); i > 0; --i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, file.size());
    switch (*rc::gen::inRange(0, 4)) {
      case 0:
        file[at] = *rc::gen::arbitrary<char>();
        break;
      case 1:
        file[at] = static_cast<char>(file[at] ^ 1 << *rc::gen::inRange(0, 8));
        break;
      case 2:
        file.erase(at, *rc::gen::inRange<std::size_t>(1, 20));
        break;
      default:
        file.insert(at,
                    *rc::gen::element<std::string>("9", "-1", "[", "{", ",", "\"", "1e9", "\0"));
    }
    if (file.empty()) break;
  }
  try {
    check_consistent(parse(file), file.size());
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::corrupt);
    RC_ASSERT(error.place().starts_with("x.safetensors"));
  }
}

RC_GTEST_PROP(Safetensors, AShortenedFileIsRefused, ()) {
  auto entries = draw_entries();
  const std::string file = draw_file(entries);
  const auto size = *rc::gen::inRange<std::size_t>(0, file.size());
  RC_ASSERT_THROWS_AS(parse(file.substr(0, size)), Error);
}

RC_GTEST_PROP(Safetensors, AnyBytesAreRefusedOrConsistent, (const std::string& noise)) {
  const std::string file = *rc::gen::arbitrary<bool>() ? noise : with_prefix("{" + noise);
  try {
    check_consistent(parse(file), file.size());
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::corrupt);
  }
}

TEST(Safetensors, ReadsAHandWrittenHeader) {
  const auto header = parse(
      R"({"b":{"dtype":"U8","shape":[],"data_offsets":[8,9]},)"
      R"("__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}  )",
      9);
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.entries[0].name, "a");
  EXPECT_EQ(header.entries[1].begin, 8u);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.find("c"), nullptr);
}

TEST(Safetensors, AnEmptyHeaderIsAFileWithoutTensors) {
  EXPECT_TRUE(parse("{}", 0).entries.empty());
  EXPECT_NE(parse_error("{}", 1).detail().find("has 1 bytes"), std::string::npos);
}

TEST(Safetensors, EmptyTensorsShareAnOffset) {
  const auto header = parse(R"({"z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                            R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                            R"("e":{"dtype":"F32","shape":[2,0],"data_offsets":[1,1]}})",
                            1);
  EXPECT_EQ(header.entries.size(), 3u);
}

TEST(Safetensors, TheLengthPrefixIsNotTrusted) {
  EXPECT_NE(parse_error("").detail().find("too few"), std::string::npos);
  EXPECT_NE(parse_error("1234567").detail().find("too few"), std::string::npos);
  std::string huge = with_prefix("{}");
  huge[7] = '\x7f';
  EXPECT_NE(parse_error(huge).detail().find("at most"), std::string::npos);
  std::string past = with_prefix("{}");
  past[0] = 3;
  EXPECT_NE(parse_error(past).detail().find("past the end"), std::string::npos);
  EXPECT_NE(parse_error(" {}", 0).detail().find("begin with '{'"), std::string::npos);
  EXPECT_NE(parse_error("", 0).detail().find("begin with '{'"), std::string::npos);
}

TEST(Safetensors, AHeadShorterThanItsHeaderIsRefused) {
  const std::string file = with_prefix("{}");
  const auto head = std::as_bytes(std::span(file)).first(9);
  EXPECT_THROW(parse_safetensors(head, file.size(), "x"), Error);
}

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets +
         "}}";
}

TEST(Safetensors, EachDamageNamesTheEntry) {
  const struct {
    std::string json;
    std::size_t data;
    const char* says;
  } cases[] = {
      {one("\"F33\"", "[1]", "[0,4]"), 4, "F33"},
      {one("4", "[1]", "[0,4]"), 4, "\"dtype\": expected a string"},
      {one("\"F32\"", "[2]", "[0,4]"), 4, "do not hold the 8 bytes"},
      {one("\"F32\"", "[1]", "[4,0]"), 4, "do not hold"},
      {one("\"F32\"", "[1]", "[0,4,8]"), 4, "two integers"},
      {one("\"F32\"", "[1]", "[-4,0]"), 4, "integer >= 0, found -4"},
      {one("\"F32\"", "[1]", "[0,4.0]"), 4, "integer >= 0"},
      {one("\"F32\"", "[-1]", "[0,4]"), 4, "shape: expected an integer >= 0, found -1"},
      {one("\"F32\"", "{}", "[0,4]"), 4, "\"shape\": expected an array"},
      {one("\"F32\"", "[9223372036854775807]", "[0,4]"), 4, "overflows"},
      {one("\"F32\"", "[9223372036854775808]", "[0,4]"), 4, "overflows"},
      {one("\"F32\"", "[4294967296,4294967296]", "[0,0]"), 0, "overflows"},
      {one("\"F32\"", "[1]", "[4,8]"), 8, "a hole"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", 4, "\"data_offsets\" is missing"},
      {R"({"w":[]})", 0, "expected an object"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("w":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8, "an overlap"},
  };
  for (const auto& damage : cases) {
    const Error error = parse_error(damage.json, damage.data);
    EXPECT_NE(error.place().find("entry \"w\""), std::string::npos) << error.what();
    EXPECT_NE(error.detail().find(damage.says), std::string::npos) << error.what();
  }
}

TEST(Safetensors, TheDataMustEndWithTheFile) {
  const std::string json = one("\"F32\"", "[1]", "[0,4]");
  EXPECT_NO_THROW(parse(json, 4));
  EXPECT_NE(parse_error(json, 3).detail().find("end at byte 4"), std::string::npos);
  EXPECT_NE(parse_error(json, 5).detail().find("has 5 bytes"), std::string::npos);
}

TEST(Safetensors, DuplicateNamesAndBadMetadataAreRefused) {
  const std::string entry = R"({"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
  EXPECT_EQ(parse_error("{\"w\":" + entry + ",\"w\":" + entry + "}", 0).detail(),
            "duplicate key \"w\"");
  EXPECT_NE(parse_error(R"({"__metadata__":[]})", 0).detail().find("object"), std::string::npos);
  EXPECT_NE(parse_error(R"({"__metadata__":{"step":3}})", 0).detail().find("\"step\""),
            std::string::npos);
}

TEST(SafetensorsHead, ComputesOffsetsAndPads) {
  std::vector<SafetensorsEntry> entries = {{"x", Dtype::bf16, {3}, 9, 9}, {"y", Dtype::f64, {}}};
  const std::string head = safetensors_head(entries, {{"k", "v"}});
  EXPECT_EQ(entries[0].begin, 0u);
  EXPECT_EQ(entries[0].end, 6u);
  EXPECT_EQ(entries[1].begin, 6u);
  EXPECT_EQ(entries[1].end, 14u);
  EXPECT_EQ(head.size() % 8, 0u);
  EXPECT_EQ(parse(head + std::string(14, 'd')).metadata.at("k"), "v");
}

TEST(SafetensorsHeadDeathTest, BadNamesAreBugs) {
  std::vector<SafetensorsEntry> twice(2);
  twice[0].name = twice[1].name = "w";
  EXPECT_DEATH(safetensors_head(twice, {}), "entry w twice");
  std::vector<SafetensorsEntry> reserved(1);
  reserved[0].name = "__metadata__";
  EXPECT_DEATH(safetensors_head(reserved, {}), "__metadata__");
}

}  // namespace
}  // namespace shardproof

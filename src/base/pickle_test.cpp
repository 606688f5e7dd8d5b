// ctest: unit
// Pickles that Python wrote (protocols 0 to 5), and those that nobody may read.
#include "base/pickle.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "base/expect_error.h"
#include "base/pickle_text.h"

namespace shardproof {
namespace {

using namespace std::string_literals;

std::string bytes_of(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

Json parsed_hex(std::string_view hex) {
  return parse_pickle(bytes_of(hex), "f");
}

void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
  expect_error(ErrorKind::bad_input, parts, [&] { parse_pickle(bytes, "dump_3"); });
}

// One value, as pickle.dumps writes it.
constexpr const char* by_protocol[] = {
    "286470300a56610a70310a286c70320a49310a61492d310a61493235350a61493235360a614936353533350a61"
    "4936353533360a61492d37303030300a614c313039393531313632373737364c0a614c2d343631313638363031"
    "383432373338373930344c0a614930310a614930300a614e6146312e350a6156e95c753030306127225c753030"
    "35630a70330a61560a70340a617356740a70350a286c70360a2874612849310a7470370a612849310a49320a74"
    "70380a612849310a49320a49330a7470390a612849310a49320a49330a49340a747031300a617356650a703131"
    "0a28647031320a7349370a286c7031330a286c7031340a56780a7031350a61616731340a61732e",
    "7d71002858010000006171015d7102284b014affffffff4bff4d00014dffff4a000001004a90eefeff4c313039"
    "393531313632373737364c0a4c2d343631313638363031383432373338373930344c0a4930310a4930300a4e47"
    "3ff80000000000005806000000c3a90a27225c7103580000000071046558010000007471055d71062829284b01"
    "747107284b014b02747108284b014b024b03747109284b014b024b034b0474710a65580100000065710b7d710c"
    "4b075d710d285d710e580100000078710f61680e65752e",
    "80027d71002858010000006171015d7102284b014affffffff4bff4d00014dffff4a000001004a90eefeff8a06"
    "0000000000018a0800000000000000c088894e473ff80000000000005806000000c3a90a27225c710358000000"
    "0071046558010000007471055d710628294b018571074b014b028671084b014b024b03877109284b014b024b03"
    "4b0474710a65580100000065710b7d710c4b075d710d285d710e580100000078710f61680e65752e",
    "8005958b000000000000007d94288c0161945d94284b014affffffff4bff4d00014dffff4a000001004a90eefe"
    "ff8a060000000000018a0800000000000000c088894e473ff80000000000008c06c3a90a27225c948c0094658c"
    "0174945d9428294b0185944b014b0286944b014b024b038794284b014b024b034b047494658c0165947d944b07"
    "5d94285d948c01789461680e65752e"};

TEST(ParsePickle, ReadsEveryProtocolOfPython) {
  const Json expected = parse_json(
      "{\"a\":[1,-1,255,256,65535,65536,-70000,1099511627776,-4611686018427387904,true,false,null,"
      "1.5,\"\u00e9\\n'\\\"\\\\\",\"\"],\"t\":[[],[1],[1,2],[1,2,3],[1,2,3,4]],\"e\":{},"
      "\"7\":[[\"x\"],[\"x\"]]}",
      "expected");
  for (const char* hex : by_protocol) EXPECT_EQ(parsed_hex(hex).dump(), expected.dump());
}

TEST(ParsePickle, BytesAndSetsHavePlainForms) {
  EXPECT_EQ(parsed_hex("80059526000000000000005d94284302ff7a9443026f6b949602000000000000006261948f9"
                       "4284b0390284b049194652e")
                .dump(),
            "[\"\u00ffz\",\"ok\",\"ba\",[3],[4]]");
  EXPECT_EQ(parse_pickle("S'a\\x41\\'\\n'\n.", "f"), "aA'\n");
}

TEST(ParsePickle, WhatWouldRunIsRefusedByNameAndPlace) {
  expect_refused(bytes_of("8002635f5f6d61696e5f5f0a410a7100298171012e"),
                 {"dump_3, byte 2", "GLOBAL", "plain data"});
  expect_refused(bytes_of("80049516000000000000008c086275696c74696e73948c057072696e749493942e"),
                 {"byte 30", "STACK_GLOBAL"});
  expect_refused("cos\nsystem\n(S'true'\ntR.", {"byte 0", "GLOBAL"});
  const struct {
    const char* opcode;
    const char* name;
  } opcodes[] = {{"NN R", "REDUCE"},
                 {"NN b", "BUILD"},
                 {"( i", "INST"},
                 {"( o", "OBJ"},
                 {" P", "PERSID"},
                 {"N Q", "BINPERSID"},
                 {"NN \x81", "NEWOBJ"},
                 {" \x82", "EXT1"},
                 {" \x83", "EXT2"},
                 {" \x84", "EXT4"},
                 {"NNN \x92", "NEWOBJ_EX"},
                 {" \x97", "NEXT_BUFFER"},
                 {"N \x98", "READONLY_BUFFER"}};
  for (const auto& [opcode, name] : opcodes) {
    std::string bytes = opcode;
    const std::size_t at = bytes.find(' ');
    bytes.erase(at, 1);
    expect_refused(bytes + ".", {"byte " + std::to_string(at), name});
  }
}

TEST(ParsePickle, DamageIsNamedWithItsPlace) {
  const std::string good = bytes_of(by_protocol[2]);
  for (std::size_t size = 0; size < good.size(); ++size) {
    expect_refused(good.substr(0, size), {"dump_3, byte"});
  }
  expect_refused(good + "x", {"after the end"});
  expect_refused("\x80\x06N.", {"byte 0", "protocol 6"});
  expect_refused("NN.", {"more or less than one value"});
  expect_refused("(N.", {"more or less than one value"});
  expect_refused(".", {"more or less than one value"});
  expect_refused("a.", {"byte 0", "not there"});
  expect_refused("N(a.", {"not there"});
  expect_refused("Na.", {"not there"});
  expect_refused("NNa.", {"byte 2", "not such a container"});
  expect_refused("}(Nu.", {"key without a value"});
  expect_refused("(Nd.", {"key without a value"});
  expect_refused("h\1.", {"memo"});
  expect_refused("q\1.", {"not there"});
  expect_refused("e.", {"no mark"});
  expect_refused("I12x\n.", {"no number"});
  expect_refused("\x8a\x09"s + std::string(9, '\1') + ".", {"more than 64 bits"});
  expect_refused("X\1\0\0\0\xff."s, {"not UTF-8"});
  expect_refused("S'abc\n.", {"not quoted"});
  expect_refused("}(K\1NK\1Nu.", {"the key '1' twice"});
  expect_refused("}(NNu.", {"neither text nor integer"});
  expect_refused("\xff.", {"byte 0", "the byte 255 is no opcode"});
}

TEST(ParsePickle, NestingSelfReferenceAndExpansionAreBounded) {
  EXPECT_NO_THROW(parse_pickle(std::string(64, ']') + std::string(63, 'a') + ".", "f"));
  expect_refused(std::string(66, ']') + std::string(65, 'a') + ".", {"deeper than 64"});
  expect_refused("]q\1h\1a.", {"deeper than 64"});
  std::string doubling = "]q"s + '\0';  // each list holds the one before it twice
  for (char i = 1; i < 60; ++i) {
    doubling += "]q"s + i + "h" + static_cast<char>(i - 1) + "ah" + static_cast<char>(i - 1) + "a";
  }
  expect_refused("(" + doubling + "t.", {"2 million values"});
}

rc::Gen<Json> any_json(int depth) {
  const auto leaf = rc::gen::oneOf(
      rc::gen::just(Json()),
      rc::gen::map(rc::gen::arbitrary<bool>(), [](bool b) { return Json(b); }),
      rc::gen::map(rc::gen::arbitrary<std::int64_t>(), [](std::int64_t i) { return Json(i); }),
      rc::gen::map(rc::gen::arbitrary<double>(), [](double d) { return Json(d); }),
      rc::gen::map(rc::gen::string<std::string>(),
                   [](const std::string& s) { return Json(text_of_bytes(s)); }));
  if (depth == 0) return leaf;
  const auto list = rc::gen::map(rc::gen::container<std::vector<Json>>(any_json(depth - 1)),
                                 [](const std::vector<Json>& items) { return Json(items); });
  const auto dict = rc::gen::map(
      rc::gen::container<std::map<int, Json>>(rc::gen::arbitrary<int>(), any_json(depth - 1)),
      [](const std::map<int, Json>& items) {
        Json object = Json::object();
        for (const auto& [key, value] : items) object[std::to_string(key)] = value;
        return object;
      });
  return rc::gen::oneOf(leaf, list, dict);
}

RC_GTEST_PROP(ToPickle, ComesBackTheSame, ()) {
  const Json value = *rc::gen::resize(8, any_json(2));
  RC_ASSERT(parse_pickle(to_pickle(value), "f") == value);
}

TEST(ToPickle, MakesATupleWhereAsked) {
  const Json value{{"pair", {"a", "b"}}, {"list", {1}}};
  const std::string bytes = to_pickle(value, "pair");
  EXPECT_EQ(parse_pickle(bytes, "f"), value);
  EXPECT_NE(bytes.find("(X\1\0\0\0aX\1\0\0\0bt"s), std::string::npos);
  EXPECT_NE(bytes.find("](K\1e"s), std::string::npos);
}

TEST(PickleText, KnowsUtf8) {
  for (const char* good : {"", "a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(is_utf8(good));
  }
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\xff", "\xc3("}) {
    EXPECT_FALSE(is_utf8(bad)) << bad;
  }
  EXPECT_EQ(unescaped_unicode("\\u20ac\\U0001f600x"), "\u20ac\U0001f600x");
  EXPECT_EQ(unescaped_unicode("\\u20a"), std::nullopt);
  EXPECT_EQ(unescaped_unicode("\\ud800"), std::nullopt);
  EXPECT_EQ(unquoted("'a\\"), std::nullopt);
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "train/config_sources.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "train/config.h"

namespace shardproof {
namespace {

const char* const two_sources =
    "[data]\n"
    "sources = [\n"
    "  {name = 'books', weight = 0.7, kind = 'text', path = 'my books.txt'},\n"
    "  {name = 'code', weight = 0.3, kind = 'text', path = 'code.txt'},\n"
    "]\n"
    "[model]\nvocabulary = 256\n";

Config two() {
  return parse_toml(two_sources, "run.toml");
}

TEST(ConfigSources, AreReadFromEachFormOfText) {
  Config expected;
  expected.model.vocabulary = 256;
  expected.data.sources = {{"books", 0.7, "text", "my books.txt", 4096},
                           {"code", 0.3, "text", "code.txt", 4096}};
  EXPECT_EQ(two(), expected);
  EXPECT_EQ(parse_toml("[[data.sources]]\nname = 'books'\nweight = 0.7\nkind = 'text'\n"
                       "path = 'my books.txt'\n"
                       "[[data.sources]]\nname = 'code'\nweight = 0.3\nkind = 'text'\n"
                       "path = 'code.txt'\n[model]\nvocabulary = 256\n",
                       "run.toml"),
            expected);
  EXPECT_NO_THROW(check(expected));
  EXPECT_EQ(parse_toml(to_toml(expected), "run.toml"), expected);
  EXPECT_EQ(parse_config_json(to_json(expected).dump(), "run.json"), expected);
}

TEST(ConfigSources, PrintOnOneLineThatParsesBack) {
  const std::string line = run_line(two());
  EXPECT_EQ(
      line,
      "model.vocabulary=256 data.sources=[{\"name\":\"books\",\"weight\":0.7,\"kind\":"
      "\"text\",\"path\":\"my books.txt\"},{\"name\":\"code\",\"weight\":0.3,\"kind\":\"text\","
      "\"path\":\"code.txt\"}]");
  EXPECT_EQ(parse_run_line(line), two());
  EXPECT_NE(to_toml(two()).find("sources = [\n  {name = \"books\", weight = 0.7, kind = \"text\", "
                                "path = \"my books.txt\"},\n"),
            std::string::npos);
}

// Golden runs and checkpoints of one source know no mixture.
TEST(ConfigSources, OneSourceKeepsItsDigest) {
  EXPECT_EQ(config_digest(Config{}),
            "fd7ada76ff762d28dbc0af87c947a1885623abb6058d634c91f8f27fa9f153dd");
}

TEST(ConfigSources, TheDigestIsOfAllButThePaths) {
  const std::string digest = config_digest(two());
  const auto changed = [](const char* assignment) {
    Config config = two();
    set_key(config, assignment);
    return config_digest(config);
  };
  EXPECT_EQ(changed("data.sources.books.path=/elsewhere/books.txt"), digest);
  EXPECT_EQ(changed("data.remix=true"), digest);
  EXPECT_NE(changed("data.sources.books.weight=0.6"), digest);
  EXPECT_NE(changed("data.sources.books.name=prose"), digest);
  EXPECT_NE(changed("data.sources.code.kind=tokens"), digest);
}

TEST(ConfigSources, OneKeyOfASourceCanBeSet) {
  Config config = two();
  Origins origins;
  set_key(config, "data.sources.code.weight=2", &origins);
  EXPECT_EQ(config.data.sources[1].weight, 2);
  EXPECT_EQ(origins.count("data.sources[1].weight"), 1u);
  const auto refuse = [&](const char* text, std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::bad_input, parts, [&] { set_key(config, text); });
  };
  refuse("data.sources.web.weight=2", {"unknown source web", "books, code"});
  refuse("data.sources.code.wieght=2", {"data.sources[1].wieght", "data.sources[1].weight"});
  refuse("data.sources.code.weight=-2", {"data.sources[1].weight: found -2", ">= 0"});
  refuse("data.sources.code=2", {"unknown"});
  Config none;
  expect_error(ErrorKind::bad_input, {"unknown source code; data.sources has none"},
               [&] { set_key(none, "data.sources.code.weight=2"); });
}

TEST(ConfigSources, MistakesNameFileLineItemAndKey) {
  const auto toml = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::bad_input, parts, [&] { parse_toml(text, "run.toml"); });
  };
  toml("[data]\nsources = [\n{name = 'a'},\n{name = 'b',\nwieght = 1}]\n", {"not TOML"});
  toml("[data]\nsources = [\n{name = 'a'},\n{name = 'b', wieght = 1}]\n",
       {"run.toml:4", "unknown key data.sources[1].wieght", "data.sources[1].weight"});
  toml("[[data.sources]]\nname = 'a'\n\n[[data.sources]]\nname = 'b'\nweight = 'much'\n",
       {"run.toml:6", "data.sources[1].weight: found \"much\"; expected a number >= 0"});
  toml("[[data.sources]]\nsamples = 0\n", {"run.toml:2", "data.sources[0].samples: found 0"});
  toml("[[data.sources]]\nkind = 'words'\n",
       {"run.toml:2", "data.sources[0].kind", "one of synthetic, text, tokens"});
  toml("[data]\nsources = 3\n",
       {"run.toml:2", "data.sources: found 3; expected a list of sources"});
  toml("[data]\nsources = ['a']\n", {"run.toml:2", "data.sources: found [\"a\"]"});
  toml("[data.sources]\nname = 'a'\n", {"run.toml:1", "data.sources: found a section"});
  toml("[[data.sources]]\nweight = nan\n", {"run.toml:2", "data.sources[0].weight: found nan"});
  const auto json = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(text);
    expect_error(ErrorKind::bad_input, parts, [&] { parse_config_json(text, "run.json"); });
  };
  json("{\"data\": {\"sources\": [\n{\"name\": \"a\"},\n{\"name\": \"b\",\n\"wieght\": 1}]}}",
       {"run.json:4", "unknown key data.sources[1].wieght"});
  json("{\"data\":\n{\"sources\": {\"name\": \"a\"}}}", {"run.json:2", "found a section"});
  json("{\"data\": {\"sources\": [\n{\"name\": 3}]}}",
       {"run.json:2", "data.sources[0].name: found 3; expected a text"});
}

TEST(ConfigSources, ImpossibleMixturesAreRefusedAtTheirLine) {
  const auto refuse = [](const std::string& text, std::initializer_list<std::string_view> parts) {
    SCOPED_TRACE(text);
    Origins origins;
    Config config = parse_toml(text, "run.toml", &origins);
    expect_error(ErrorKind::bad_input, parts, [&] { check(config, origins); });
  };
  const std::string a = "[[data.sources]]\nname = 'a'\n", b = "[[data.sources]]\nname = 'b'\n";
  refuse("[[data.sources]]\nweight = 1\n", {"data.sources[0].name: found \"\""});
  refuse("[[data.sources]]\nname = 'a b'\n", {"run.toml:2", "found \"a b\"; expected 1 to 64"});
  refuse(a + "weight = 2\n" + a, {"run.toml:5", "data.sources[1].name: found a a second time"});
  refuse(a + "weight = 0\n" + b + "weight = 0\n", {"run.toml:3", "found 0 for every source"});
  refuse(a + "path = 'x'\n", {"run.toml:3", "data.sources[0].path: found \"x\"", "synthetic"});
  refuse(a + "kind = 'text'\n", {"data.sources[0].path: not given; kind text needs it"});
  refuse(a + "kind = 'text'\npath = 'x'\nsamples = 9\n", {"run.toml:5", "data.sources[0].samples"});
  refuse(a + "kind = 'text'\npath = 'x'\n" + b,
         {"data.sources[1].kind: found synthetic; expected text as in source a"});
  refuse(a + "kind = 'text'\npath = 'x'\n", {"model.vocabulary: found 64", "at least 256"});
  refuse("[data]\npacked = true\n" + a, {"data.sources[0].kind", "data.packed"});
  refuse("[data]\nkind = 'text'\n" + a,
         {"run.toml:2", "data.kind: found text beside data.sources"});
  refuse("[data]\npath = 'x'\n" + a, {"run.toml:2", "data.path: found \"x\" beside data.sources"});
  refuse("[data]\nsamples = 5\n" + a, {"run.toml:2", "data.samples: found 5 beside"});
  refuse("[data]\nlast = 'short'\n" + a,
         {"run.toml:2", "data.last: found short with data.sources"});
}

}  // namespace
}  // namespace shardproof

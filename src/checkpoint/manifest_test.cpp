// ctest: unit
// manifest: print and parse are inverse; digests do not depend on who wrote what; hostile texts are
// refused by name.
#include "checkpoint/manifest.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <functional>
#include <limits>

#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/manifest_json.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::sealed;

ManifestEntry entry(const std::string& name, const std::string& what, const PieceSpec& piece,
                    ElementRange range, const std::string& file, std::uint64_t begin) {
  ManifestEntry out;
  out.name = name;
  out.what = what;
  out.piece = piece.piece;
  out.pieces = piece.pieces;
  out.global_shape = piece.global_shape;
  out.box = piece.box;
  out.range = range;
  out.file = file;
  out.tensor = out.key();
  out.begin = begin;
  out.end = begin + static_cast<std::uint64_t>(range.size()) * 4;
  for (std::int64_t at = range.lo; at < range.hi; at += block_elements) {
    out.blocks.push_back(sha256(name + what + std::to_string(piece.piece) + std::to_string(at)));
  }
  return out;
}

// Two pieces of 1,400 elements, the first in two runs in two files.
Manifest sample() {
  const auto pieces = cut("a.weight", {40, 70}, 0, 2);
  Manifest manifest;
  manifest.id = "step-00000010";
  manifest.facts = testing::small_facts();
  manifest.files = {{"x/0", 100 + 4096, 100, sha256("0"), sha256("00")},
                    {"x/1", 100 + 1504 + 5600, 100, sha256("1"), sha256("11")}};
  manifest.entries = {entry("a.weight", "param", pieces[0], {0, 1024}, "x/0", 100),
                      entry("a.weight", "param", pieces[0], {1024, 1400}, "x/1", 100),
                      entry("a.weight", "param", pieces[1], {0, 1400}, "x/1", 1604)};
  return manifest;
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> out;
  for (const auto& item : object.items()) out.push_back(item.key());
  return out;
}

Error refusal(const std::function<void(Json&)>& edit) {
  Json json = parse_json(sample().print(), "sample");
  edit(json);
  return error_of([&] { Manifest::parse(sealed(json), "m.json"); });
}

void expect_refused(const std::string& words, const std::function<void(Json&)>& edit,
                    ErrorKind kind = ErrorKind::corrupt) {
  const Error error = refusal(edit);
  EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
  EXPECT_TRUE(contains(error.what(), words)) << error.what() << "\nexpected " << words;
}

TEST(Manifest, PrintAndParseAreInverse) {
  const Manifest manifest = sample();
  const Manifest back = Manifest::parse(manifest.print(), "m.json");
  EXPECT_EQ(back.print(), manifest.print());
  EXPECT_EQ(back.state_digest(), manifest.state_digest());
  EXPECT_EQ(back.id, manifest.id);
  EXPECT_EQ(back.facts.config, manifest.facts.config);
  EXPECT_EQ(back.facts.step, 10);
  ASSERT_EQ(back.entries.size(), 3u);
  EXPECT_EQ(back.entries[1].range, (ElementRange{1024, 1400}));
  EXPECT_EQ(back.entries[1].label(), "a.weight/param piece 0 [1024:1400]");
  EXPECT_EQ(back.entries[1].key(), "a.weight/param/0/1024");
  EXPECT_EQ(back.files[1].bytes, 7204u);
  EXPECT_EQ(back.files[1].head, 100u);
  EXPECT_EQ(back.files[1].head_sha256, sha256("1"));
  EXPECT_EQ(back.files[1].digest, sha256("11"));
  const std::string text = manifest.print();
  EXPECT_EQ(back.seal, text.substr(text.size() - 67, 64));
  EXPECT_EQ(back.entries[2].blocks, manifest.entries[2].blocks);
}

TEST(Manifest, ScalarsAndEmptyPiecesAreLegal) {
  Manifest manifest = sample();
  const auto scalar = cut("c", {}, -1, 1)[0];
  const auto few = cut("b", {2}, 0, 4);  // two of the four pieces are empty and have no entry
  manifest.entries.clear();
  manifest.files = {{"x/0", 12, 0, sha256("0"), sha256("00")}};
  std::uint64_t at = 0;
  for (const PieceSpec& piece : few) {
    if (piece.elements() == 0) continue;
    manifest.entries.push_back(entry("b", "param", piece, {0, piece.elements()}, "x/0", at));
    at += 4;
  }
  manifest.entries.push_back(entry("c", "param", scalar, {0, 1}, "x/0", at));
  ASSERT_EQ(manifest.entries.size(), 3u);
  EXPECT_EQ(Manifest::parse(manifest.print(), "m.json").print(), manifest.print());
}

TEST(Manifest, EveryChangedByteAndEveryCutIsRefused) {
  const std::string text = sample().print();
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string damaged = text;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
      EXPECT_EQ(error_of([&] { Manifest::parse(damaged, "m.json"); }).kind(), ErrorKind::corrupt)
          << "byte " << i << " bit " << bit;
    }
    EXPECT_EQ(error_of([&] { Manifest::parse(text.substr(0, i), "m.json"); }).kind(),
              ErrorKind::corrupt)
        << "cut at " << i;
  }
  for (const std::string more : {" ", "\n", "x"}) {
    EXPECT_EQ(error_of([&] { Manifest::parse(text + more, "m.json"); }).kind(), ErrorKind::corrupt);
  }
}

TEST(Manifest, UnknownSchemaIsRefused) {
  expect_refused(
      "schema 2; this program reads schema 3",
      [](Json& json) { json["shardproof_checkpoint"] = 2; }, ErrorKind::refused);
}

// Digests are read past the JSON library where they stand as we write them, and by it elsewhere.
TEST(Manifest, AnySpellingOfTheSameJsonIsTheSame) {
  const Manifest manifest = sample();
  const Json json = parse_json(manifest.print(), "sample");
  EXPECT_EQ(Manifest::parse(sealed(json), "m.json").print(), manifest.print());
  Json other = json;
  other.erase("manifest_sha256");
  other["facts"]["config"]["blocks"] = "no digests";  // one more value of that name
  EXPECT_EQ(Manifest::parse(sealed(other), "m.json").entries[2].blocks, manifest.entries[2].blocks);
  std::string body = json.dump(1);
  body.resize(body.rfind(",\n \"manifest_sha256\""));
  const std::string spaced = body + ",\n\"manifest_sha256\":\"" + sha256(body).hex() + "\"}\n";
  EXPECT_EQ(Manifest::parse(spaced, "m.json").print(), manifest.print());
}

TEST(Manifest, BlocksThatStandForOthersAreRefused) {
  // As many values of that name as entries, but not theirs.
  expect_refused("\"blocks\" is missing", [](Json& json) {
    json["facts"]["config"]["blocks"] = json["entries"][0]["blocks"];
    json["entries"][0].erase("blocks");
  });
}

TEST(Manifest, MissingUnknownAndDuplicateKeysAreRefused) {
  for (const char* key :
       {"shardproof_checkpoint", "id", "state_digest", "facts", "files", "entries"}) {
    expect_refused(key, [&](Json& json) { json.erase(key); });
  }
  for (const std::string& key : keys(to_json(sample().facts))) {
    expect_refused(key, [&](Json& json) { json["facts"].erase(key); });
    expect_refused(key, [&](Json& json) { json["facts"][key] = false; });
  }
  for (const std::string& key : keys(to_json(sample().entries[0]))) {
    expect_refused(key, [&](Json& json) { json["entries"][1].erase(key); });
    expect_refused(key, [&](Json& json) { json["entries"][1][key] = false; });
  }
  for (const std::string& key : keys(to_json(sample().files[0]))) {
    expect_refused(key, [&](Json& json) { json["files"][1].erase(key); });
    expect_refused(key, [&](Json& json) { json["files"][1][key] = false; });
  }
  expect_refused("unknown key \"more\"", [](Json& json) { json["more"] = 1; });
  expect_refused("unknown key \"more\"", [](Json& json) { json["facts"]["more"] = 1; });
  expect_refused("unknown key \"more\"", [](Json& json) { json["entries"][0]["more"] = 1; });
  expect_refused("unknown key \"more\"", [](Json& json) { json["entries"][0]["box"]["more"] = 1; });
  expect_refused("unknown key \"more\"", [](Json& json) { json["files"][0]["more"] = 1; });
  const std::string body = "{\"shardproof_checkpoint\":1,\"shardproof_checkpoint\":1";
  const std::string text = body + ",\n\"manifest_sha256\":\"" + sha256(body).hex() + "\"}\n";
  const Error error = error_of([&] { Manifest::parse(text, "m.json"); });
  EXPECT_TRUE(contains(error.what(), "duplicate key")) << error.what();
}

TEST(Manifest, PathsThatLeaveTheRootAreRefused) {
  for (const std::string path : {"/etc/passwd", "../x", "a/../../x", "a//b", "", "."}) {
    expect_refused(
        "storage path", [&](Json& json) { json["entries"][0]["file"] = path; }, ErrorKind::refused);
    expect_refused(
        "storage path", [&](Json& json) { json["files"][0]["file"] = path; }, ErrorKind::refused);
  }
}

TEST(Manifest, DuplicateOverlappingMissingAndUnsortedBlocksAreRefused) {
  const auto set_range = [](Json& json, int i, std::int64_t lo, std::int64_t hi, int blocks) {
    Json& entry = json["entries"][static_cast<std::size_t>(i)];
    entry["range"] = {lo, hi};
    entry["tensor"] =
        "a.weight/param/" + std::to_string(entry["piece"].get<int>()) + "/" + std::to_string(lo);
    const auto begin = entry["bytes"][0].get<std::uint64_t>();
    entry["bytes"] = {begin, begin + static_cast<std::uint64_t>(hi - lo) * 4};
    entry["blocks"] = std::string(static_cast<std::size_t>(64 * blocks), '0');
  };
  expect_refused("a duplicate entry", [&](Json& json) { set_range(json, 1, 0, 1024, 1); });
  expect_refused("an overlap", [&](Json& json) { set_range(json, 1, 0, 1400, 2); });
  expect_refused("a hole before it", [&](Json& json) { json["entries"].erase(0); });
  expect_refused("a hole after it", [&](Json& json) { json["entries"].erase(1); });
  expect_refused("the pieces hold 1400 elements", [&](Json& json) { json["entries"].erase(2); });
  expect_refused("out of order",
                 [&](Json& json) { std::swap(json["entries"][0], json["entries"][2]); });
  expect_refused("whole blocks", [&](Json& json) { set_range(json, 1, 1000, 1400, 1); });
  expect_refused("whole blocks", [&](Json& json) { set_range(json, 0, 0, 1000, 1); });
  expect_refused("whole blocks", [&](Json& json) { set_range(json, 1, 1024, 2048, 1); });
  expect_refused("whole blocks", [&](Json& json) { set_range(json, 0, 1024, 1024, 0); });
  expect_refused("whole blocks", [&](Json& json) { json["entries"][0]["range"] = {-1024, 1024}; });
  expect_refused("1 block digests; expected 2",
                 [](Json& json) { json["entries"][2]["blocks"] = std::string(64, '0'); });
  expect_refused("expected 64 a block",
                 [](Json& json) { json["entries"][2]["blocks"] = std::string(65, '0'); });
  expect_refused("lower-case hex",
                 [](Json& json) { json["entries"][0]["blocks"] = std::string(64, 'A'); });
  expect_refused("do not hold its 4096 bytes", [](Json& json) {
    json["entries"][0]["bytes"] = {100, 4197};
  });
  expect_refused("do not hold its 4096 bytes", [](Json& json) {
    json["entries"][0]["bytes"] = {5000, 100};
  });
  expect_refused("begins at byte 1000 of 'x/0'; expected 100", [](Json& json) {
    json["entries"][0]["bytes"] = {1000, 5096};
  });
  expect_refused("begins at byte 99 of 'x/0'; expected 100", [](Json& json) {
    json["entries"][0]["bytes"] = {99, 4195};
  });
  expect_refused("overlap those of", [](Json& json) {
    json["entries"][1]["bytes"] = {1000, 2504};
  });
  for (const std::uint64_t bytes : {0, 4195, 4197, 5000}) {
    expect_refused("the entries of 'x/0' end at byte 4196; expected its " + std::to_string(bytes),
                   [&](Json& json) { json["files"][0]["bytes"] = bytes; });
  }
  expect_refused("begins at byte 100 of 'x/1'; expected 101",
                 [](Json& json) { json["files"][1]["head"] = 101; });
  expect_refused("not in the list of files",
                 [](Json& json) { json["entries"][0]["file"] = "x/2"; });
  expect_refused("is listed twice", [](Json& json) { json["files"][1]["file"] = "x/0"; });
  expect_refused("tensor key", [](Json& json) { json["entries"][0]["tensor"] = "other"; });
}

TEST(Manifest, ShapesThatOverflowOrDisagreeAreRefusedBeforeAnythingIsAllocated) {
  const std::int64_t huge = std::int64_t{1} << 62;
  const auto shape_all = [](Json& json, const char* key, const Json& value) {
    for (Json& entry : json["entries"]) entry[key] = value;
  };
  expect_refused("overflows 63 bits", [&](Json& json) { shape_all(json, "shape", {huge, 1}); });
  expect_refused("overflows 63 bits", [&](Json& json) {
    shape_all(json, "shape", {std::int64_t{1} << 30, std::int64_t{1} << 31});
  });
  expect_refused("has 9 dims", [&](Json& json) {
    shape_all(json, "shape", {1, 1, 1, 1, 1, 1, 1, 1, 1});
  });
  expect_refused("other dims", [&](Json& json) { shape_all(json, "shape", {40}); });
  expect_refused("extent -1", [&](Json& json) { shape_all(json, "shape", {-1, 70}); });
  expect_refused("leaves the global shape in dim 0", [](Json& json) {
    json["entries"][2]["box"]["offsets"] = {21, 0};
  });
  expect_refused("leaves the global shape in dim 1", [](Json& json) {
    json["entries"][2]["box"]["offsets"] = {20, -1};
  });
  expect_refused("boxes of two pieces overlap", [](Json& json) {
    json["entries"][2]["box"]["offsets"] = {19, 0};
  });
  expect_refused("another shape", [](Json& json) { json["entries"][2]["shape"] = {41, 70}; });
  expect_refused("another dtype or box", [](Json& json) {
    json["entries"][1]["box"]["offsets"] = {1, 0};
  });
  expect_refused("the pieces hold 2800 elements of the parameter's 2870", [&](Json& json) {
    shape_all(json, "shape", {41, 70});
  });
  expect_refused("piece 2 of 2", [](Json& json) { json["entries"][2]["piece"] = 2; });
  expect_refused("expected 0 to", [](Json& json) { json["entries"][2]["piece"] = -1; });
  expect_refused("expected 0 to", [&](Json& json) { json["entries"][2]["pieces"] = huge; });
  expect_refused("pieces", [&](Json& json) { shape_all(json, "pieces", 0); });
  expect_refused("F31", [](Json& json) { json["entries"][0]["dtype"] = "F31"; });
  expect_refused("name and what", [](Json& json) { json["entries"][0]["name"] = "a/b"; });
  expect_refused("name and what", [](Json& json) { json["entries"][0]["name"] = "\x1b[2J"; });
  expect_refused("name and what", [](Json& json) { json["entries"][0]["what"] = ""; });
  expect_refused("\"step\" is -1", [](Json& json) { json["facts"]["step"] = -1; });
  for (const std::int64_t step :
       {std::int64_t{1} << 31, std::numeric_limits<std::int64_t>::max()}) {
    expect_refused(fmt::format("\"step\" is {}; expected 0 to 2147483647", step),
                   [=](Json& json) { json["facts"]["step"] = step; });
  }
  expect_refused("its entries give",
                 [](Json& json) { json["state_digest"] = std::string(64, '0'); });
  expect_refused(
      "checkpoint id", [](Json& json) { json["id"] = "../x"; }, ErrorKind::bad_input);
}

TEST(Manifest, NestedTooDeepIsRefused) {
  const std::string body = "{\"facts\":" + std::string(100000, '[');
  const std::string text = body + ",\n\"manifest_sha256\":\"" + sha256(body).hex() + "\"}\n";
  EXPECT_EQ(error_of([&] { Manifest::parse(text, "m.json"); }).kind(), ErrorKind::corrupt);
}

TEST(CheckpointId, IsOnePathComponent) {
  for (const std::string id : {"a", "step-00000010", "A_b.c-9", "x..y"}) check_checkpoint_id(id);
  check_checkpoint_id(std::string(128, 'x'));
  for (const std::string& id :
       {std::string(), std::string("."), std::string(".."), std::string(".hidden"),
        std::string("a/b"), std::string("a b"), std::string("a\0b", 3), std::string("\xff"),
        std::string(129, 'x')}) {
    EXPECT_EQ(error_of([&] { check_checkpoint_id(id); }).kind(), ErrorKind::bad_input) << id;
  }
  EXPECT_EQ(step_id(0), "step-00000000");
  EXPECT_EQ(step_id(10), "step-00000010");
  EXPECT_EQ(step_id(1234567890), "step-1234567890");
  EXPECT_EQ(manifest_path("a"), "a.manifest.json");
}

RC_GTEST_PROP(StateDigest, DoesNotDependOnRunsFilesOrFacts, ()) {
  const auto piece = cut("w", {*rc::gen::inRange<std::int64_t>(1, 9000)}, -1, 1)[0];
  const auto manifest_of = [&](const std::vector<std::int64_t>& cuts, const std::string& file) {
    Manifest manifest;
    std::int64_t lo = 0;
    for (std::int64_t hi : cuts) {
      hi = std::min(hi * block_elements, piece.elements());
      if (hi <= lo) continue;
      manifest.entries.push_back(entry("w", "param", piece, {lo, hi}, file, 0));
      lo = hi;
    }
    if (lo < piece.elements()) {
      manifest.entries.push_back(entry("w", "param", piece, {lo, piece.elements()}, file, 0));
    }
    return manifest;
  };
  const auto cuts =
      *rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 10));
  Manifest one = manifest_of({}, "a");
  const Manifest two = manifest_of(cuts, "b");
  one.facts.step = 7;
  RC_ASSERT(one.state_digest() == two.state_digest());
  // But on every block, and on the tensor's name and dtype.
  const auto which = *rc::gen::inRange<std::size_t>(0, one.entries[0].blocks.size());
  one.entries[0].blocks[which].bytes[5] ^= 1;
  RC_ASSERT(one.state_digest() != two.state_digest());
  one = manifest_of({}, "a");
  one.entries[0].dtype = Dtype::i32;
  RC_ASSERT(one.state_digest() != two.state_digest());
  one = manifest_of({}, "a");
  one.entries[0].name = "v";
  RC_ASSERT(one.state_digest() != two.state_digest());
}

}  // namespace
}  // namespace shardproof

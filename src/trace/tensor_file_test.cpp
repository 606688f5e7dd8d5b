// ctest: unit
#include "trace/tensor_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <cstring>
#include <vector>

#include "base/expect_error.h"
#include "base/safetensors.h"
#include "base/temp_folder.h"
#include "trace/reader.h"

namespace shardproof {
namespace {

TEST(TensorFileName, RoundTrips) {
  EXPECT_EQ(tensor_file_name(7, "param", 3), "step_000007.param.rank_00003.safetensors");
  EXPECT_EQ(tensor_file_name(-1, "param", 0), "step_-00001.param.rank_00000.safetensors");
  for (const std::int64_t step : {-1ll, 0ll, 12ll, 12345678ll}) {
    const auto back = parse_tensor_file_name(tensor_file_name(step, "grad", 123456));
    ASSERT_TRUE(back.has_value());
    EXPECT_EQ(back->step, step);
    EXPECT_EQ(back->what, "grad");
    EXPECT_EQ(back->rank, 123456);
  }
}

TEST(TensorFileName, OtherFilesAreNone) {
  for (const char* other :
       {"", "rank_00000.jsonl", "step_1.param.rank_0.safetensors.draft",
        "step_.param.rank_0.safetensors", "step_1..rank_0.safetensors",
        "step_1.param.rank_.safetensors", "step_99999999999999999999.param.rank_0.safetensors",
        "step_1.param.rank_99999999999.safetensors", "x_step_1.param.rank_0.safetensors"}) {
    EXPECT_FALSE(parse_tensor_file_name(other).has_value()) << other;
  }
}

struct Fixture {
  TempFolder folder;
  std::vector<float> matrix = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> ids = {7, 8, 9};

  std::string path() const { return folder.file("x.safetensors"); }
  std::vector<TensorView> views() const {
    TensorView box;
    box.place = {"w", {4, 3}, 1, {{2, 0}, {2, 3}}, false, {}};
    box.data = matrix.data();
    TensorView run;
    run.place = {"ids", {2, 4}, 0, {{0, 1}, {2, 3}}, true, {2, 5}};
    run.dtype = Dtype::i64;
    run.data = ids.data();
    return {box, run};
  }
};

TEST(TensorFile, BoxesAndRunsComeBack) {
  const Fixture fixture;
  write_tensor_file(fixture.path(), fixture.views());
  const TensorFile file = TensorFile::open(fixture.path());
  ASSERT_EQ(file.entries().size(), 2u);

  const TensorFile::Entry& box = file.entries()[0];
  EXPECT_EQ(box.place.name, "w");
  EXPECT_EQ(box.place.global_shape, (Shape{4, 3}));
  EXPECT_EQ(box.place.piece, 1);
  EXPECT_EQ(box.place.box, (Box{{2, 0}, {2, 3}}));
  EXPECT_FALSE(box.place.is_run);
  EXPECT_EQ(box.dtype, Dtype::f32);
  ASSERT_EQ(box.bytes.size(), 24u);
  EXPECT_EQ(std::memcmp(box.bytes.data(), fixture.matrix.data(), 24), 0);

  const TensorFile::Entry& run = file.entries()[1];
  EXPECT_TRUE(run.place.is_run);
  EXPECT_EQ(run.place.box, (Box{{0, 1}, {2, 3}}));
  EXPECT_EQ(run.place.range, (ElementRange{2, 5}));
  EXPECT_EQ(run.dtype, Dtype::i64);
  ASSERT_EQ(run.bytes.size(), 24u);
  EXPECT_EQ(std::memcmp(run.bytes.data(), fixture.ids.data(), 24), 0);
}

TEST(TensorFile, TheMetadataIsTheDocumentedOne) {
  const Fixture fixture;
  write_tensor_file(fixture.path(), fixture.views());
  const std::string bytes = fixture.folder.read("x.safetensors");
  const auto header = parse_safetensors(std::as_bytes(std::span(bytes)), bytes.size(), "x");
  EXPECT_EQ(header.find("ids")->shape, (Shape{3}));
  EXPECT_EQ(header.metadata.at("DCP_SHARDING_INFO"),
            R"({"w":{"name":"w","piece":1,"saved_offsets":[2,0],"global_shape":[4,3]},)"
            R"("ids":{"name":"ids","piece":0,"global_shape":[2,4],"piece_offsets":[0,1],)"
            R"("piece_shape":[2,3],"range":[2,5]}})");
  EXPECT_EQ(fixture.folder.read("x.safetensors.draft"), "") << "no draft is left";
}

TEST(TensorFile, PiecesOfOneTensorAreToldApart) {
  const Fixture fixture;
  auto views = fixture.views();
  views.push_back(views[0]);
  views[2].place.piece = 0;
  views[2].place.box.offsets = {0, 0};
  write_tensor_file(fixture.path(), views);
  const TensorFile file = TensorFile::open(fixture.path());
  ASSERT_EQ(file.entries().size(), 3u);
  EXPECT_EQ(file.entries()[0].place.name, "w");
  EXPECT_EQ(file.entries()[2].place.name, "w");
  EXPECT_EQ(file.entries()[0].place.piece, 1);
  EXPECT_EQ(file.entries()[2].place.piece, 0);
  const std::string bytes = fixture.folder.read("x.safetensors");
  const auto header = parse_safetensors(std::as_bytes(std::span(bytes)), bytes.size(), "x");
  EXPECT_NE(header.find("w#0"), nullptr);
  EXPECT_NE(header.find("w#1"), nullptr);
  EXPECT_EQ(header.find("w"), nullptr);
}

TEST(TensorFileDeathTest, OnePieceTwiceIsABug) {
  const Fixture fixture;
  auto views = fixture.views();
  views.push_back(views[0]);
  EXPECT_DEATH(write_tensor_file(fixture.path(), views), "w#1 twice");
}

TEST(TensorFile, NoTensorsAndEmptyRunsAreLegal) {
  const Fixture fixture;
  write_tensor_file(fixture.path(), {});
  EXPECT_TRUE(TensorFile::open(fixture.path()).entries().empty());
  auto views = fixture.views();
  views[1].place.range = {6, 6};
  write_tensor_file(fixture.path(), views);  // replaces the file
  ASSERT_EQ(TensorFile::open(fixture.path()).entries().size(), 2u);
  EXPECT_TRUE(TensorFile::open(fixture.path()).entries()[1].bytes.empty());
}

TEST(TensorFile, StaysValidWhileACopyLives) {
  const Fixture fixture;
  write_tensor_file(fixture.path(), fixture.views());
  const TensorFile copy = [&] { return TensorFile::open(fixture.path()); }();
  std::filesystem::remove(fixture.path());
  EXPECT_EQ(std::memcmp(copy.entries()[0].bytes.data(), fixture.matrix.data(), 24), 0);
}

std::string file_with_info(const std::string& info) {
  std::vector<SafetensorsEntry> entries = {{"w", Dtype::u8, {2, 2}}};
  std::map<std::string, std::string> metadata;
  if (!info.empty()) metadata["DCP_SHARDING_INFO"] = info;
  return safetensors_head(entries, metadata) + "data";
}

TEST(TensorFile, AForeignFileWithoutInfoHoldsWholeTensors) {
  const Fixture fixture;
  fixture.folder.write("x.safetensors", file_with_info(""));
  const TensorFile file = TensorFile::open(fixture.path());
  EXPECT_EQ(file.entries()[0].place.box, (Box{{0, 0}, {2, 2}}));
  EXPECT_EQ(file.entries()[0].place.global_shape, (Shape{2, 2}));
  EXPECT_EQ(file.entries()[0].place.name, "w");
}

TEST(TensorFile, AForeignInfoNeedsOffsetsAndShapeAlone) {
  const Fixture fixture;
  fixture.folder.write("x.safetensors",
                       file_with_info(R"({"w":{"saved_offsets":[2,0],"global_shape":[4,2]}})"));
  const TensorFile file = TensorFile::open(fixture.path());
  EXPECT_EQ(file.entries()[0].place.name, "w");
  EXPECT_EQ(file.entries()[0].place.piece, 0);
  EXPECT_EQ(file.entries()[0].place.box, (Box{{2, 0}, {2, 2}}));
}

TEST(TensorFile, BadInfoNamesFileAndEntry) {
  const Fixture fixture;
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"[]", "expected an object"},
      {"{", "not JSON"},
      {R"({"v":{}})", "no entry \"v\""},
      {R"({"w":{"saved_offsets":[0,0]}})", "\"global_shape\" is missing"},
      {R"({"w":{"global_shape":[2,2]}})", "\"saved_offsets\" is missing"},
      {R"({"w":{"saved_offsets":[3,0],"global_shape":[4,2]}})", "dim 0"},
      {R"({"w":{"saved_offsets":[0],"global_shape":[4,2]}})", "in a tensor of 2"},
      {R"({"w":{"global_shape":[4,2],"piece_offsets":[0,0],"piece_shape":[4,2],"range":[0,4]}})",
       "another shape"},
      {R"({"w":{"global_shape":[4,2],"piece_offsets":[0,0],"range":[0,4]}})",
       "\"piece_shape\" is missing"}};
  for (const auto& [info, says] : bad) {
    fixture.folder.write("x.safetensors", file_with_info(info));
    const Error error = error_of([&] { TensorFile::open(fixture.path()); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_EQ(error.place().rfind(fixture.path(), 0), 0u) << error.what();
    EXPECT_NE(error.detail().find(says), std::string::npos) << error.what();
  }
}

TEST(TensorFile, MissingAndEmptyFiles) {
  const Fixture fixture;
  EXPECT_EQ(error_of([&] { TensorFile::open(fixture.path()); }).kind(), ErrorKind::io);
  fixture.folder.write("x.safetensors", "");
  EXPECT_EQ(error_of([&] { TensorFile::open(fixture.path()); }).kind(), ErrorKind::corrupt);
}

TEST(TensorFile, AFailedWriteNamesTheFile) {
  const Fixture fixture;
  const std::string path = fixture.folder.file("none/x.safetensors");
  const Error error = error_of([&] { write_tensor_file(path, fixture.views()); });
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_EQ(error.place().rfind(path, 0), 0u);
}

RC_GTEST_PROP(TensorFile, ADamagedFileIsRefusedOrInBounds, ()) {
  const Fixture fixture;
  write_tensor_file(fixture.path(), fixture.views());
  std::string bytes = fixture.folder.read("x.safetensors");
  for (int i = *rc::gen::inRange(1, 4); i > 0; --i) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] = *rc::gen::arbitrary<char>();
  }
  fixture.folder.write("x.safetensors", bytes);
  try {
    const TensorFile file = TensorFile::open(fixture.path());
    std::size_t total = 0;
    for (const TensorFile::Entry& entry : file.entries()) {
      const std::int64_t elements =
          entry.place.is_run ? entry.place.range.size() : element_count(entry.place.box.shape);
      RC_ASSERT(entry.bytes.size() == static_cast<std::size_t>(elements) * size_of(entry.dtype));
      total += entry.bytes.size();
    }
    RC_ASSERT(total == 48u);
  } catch (const Error& error) {
    RC_ASSERT(error.kind() == ErrorKind::corrupt);
  }
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "trace/tensor_place.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/expect_error.h"

namespace shardproof {
namespace {

TensorPlace whole(const Shape& shape) {
  return {"w", shape, 0, {Shape(shape.size(), 0), shape}, false, {}};
}

TensorPlace run(const Shape& shape, std::int64_t lo, std::int64_t hi) {
  TensorPlace place = whole(shape);
  place.is_run = true;
  place.range = {lo, hi};
  return place;
}

std::string refusal(const TensorPlace& place) {
  const Error error = error_of([&] { check_place(place, "t.jsonl:3"); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.place(), "t.jsonl:3");
  EXPECT_NE(error.detail().find("tensor \"w\""), std::string::npos);
  return error.detail();
}

TEST(CheckPlace, AcceptsBoxesAndRunsInside) {
  EXPECT_NO_THROW(check_place(whole({}), "x"));
  EXPECT_NO_THROW(check_place(whole({4, 6}), "x"));
  EXPECT_NO_THROW(check_place({"w", {4, 6}, 1, {{4, 2}, {0, 4}}, false, {}}, "x"));
  EXPECT_NO_THROW(check_place(run({4, 6}, 0, 24), "x"));
  EXPECT_NO_THROW(check_place(run({4, 6}, 24, 24), "x"));
}

TEST(CheckPlace, RefusesWhatLeavesTheTensor) {
  EXPECT_NE(refusal({"w", {4, 6}, 0, {{0}, {4, 6}}, false, {}}).find("in a tensor of 2"),
            std::string::npos);
  EXPECT_NE(refusal({"w", {4}, 0, {{0}, {}}, false, {}}).find("in a tensor of 1"),
            std::string::npos);
  for (const Box& box :
       {Box{{3, 0}, {2, 6}}, Box{{-1, 0}, {1, 6}}, Box{{5, 0}, {0, 6}}, Box{{0, 0}, {-1, 6}},
        Box{{1, 0}, {std::numeric_limits<std::int64_t>::max(), 6}}}) {
    EXPECT_NE(refusal({"w", {4, 6}, 0, box, false, {}}).find("dim 0"), std::string::npos);
  }
  EXPECT_NE(refusal(whole({1ll << 32, 1ll << 32})).find("overflows"), std::string::npos);
  for (const TensorPlace& place : {run({4, 6}, 0, 25), run({4, 6}, -1, 2), run({4, 6}, 3, 2)}) {
    EXPECT_NE(refusal(place).find("range"), std::string::npos);
  }
}

TEST(ElementCountOfPlace, IsThatOfTheBoxOrTheRun) {
  EXPECT_EQ(element_count(whole({})), 1);
  EXPECT_EQ(element_count(whole({4, 6})), 24);
  EXPECT_EQ(element_count(run({4, 6}, 3, 10)), 7);
}

TEST(DigestBlocks, OnlyForRunsFromABlockBound) {
  EXPECT_EQ(digest_blocks(whole({4096})), 0);
  EXPECT_EQ(digest_blocks(run({4096}, 0, 4096)), 4);
  EXPECT_EQ(digest_blocks(run({4096}, 1024, 2049)), 2);
  EXPECT_EQ(digest_blocks(run({4096}, 1, 4096)), 0);
  EXPECT_EQ(digest_blocks(run({4096}, 1024, 1024)), 0);
}

TEST(PlaceMembers, ReadAndRefuse) {
  const Json object = parse_json(
      R"({"a":[1,-2],"e":[],"f":[1.5],"big":[9223372036854775808],"s":"x","r":[3,5],"piece":2})",
      "f");
  EXPECT_EQ(integers_member(object, "a", "p"), (std::vector<std::int64_t>{1, -2}));
  EXPECT_TRUE(integers_member(object, "e", "p").empty());
  for (const char* key : {"f", "big", "s"}) {
    const Error error = error_of([&] { integers_member(object, key, "p"); });
    EXPECT_EQ(error.kind(), ErrorKind::corrupt);
    EXPECT_NE(error.detail().find("\"" + std::string(key) + "\""), std::string::npos);
  }
  EXPECT_EQ(range_member(object, "r", "p"), (ElementRange{3, 5}));
  EXPECT_NE(error_of([&] { range_member(object, "e", "p"); }).detail().find("found 0 integers"),
            std::string::npos);
  EXPECT_EQ(piece_member(object, "p"), 2);
  EXPECT_EQ(piece_member(Json::object(), "p"), 0);
  for (const char* bad : {R"({"piece":-1})", R"({"piece":2147483648})", R"({"piece":"1"})"}) {
    EXPECT_EQ(error_of([&] { piece_member(parse_json(bad, "f"), "p"); }).kind(),
              ErrorKind::corrupt);
  }
}

}  // namespace
}  // namespace shardproof

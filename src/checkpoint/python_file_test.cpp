// ctest: unit
// A file written by the safetensors package for Python (testdata/peer.py) is read here, bit for
// bit.
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

template <typename T>
std::vector<T> values(Storage& storage, const SafetensorsHeader& header, const std::string& key) {
  const SafetensorsEntry* entry = header.find(key);
  if (entry == nullptr || (entry->end - entry->begin) % sizeof(T) != 0) {
    ADD_FAILURE() << "no tensor " << key;
    return {};
  }
  std::vector<T> out((entry->end - entry->begin) / sizeof(T));
  storage.read("python.safetensors", header.data_begin + entry->begin,
               std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(PythonFile, ParsesAndReads) {
  const auto storage = posix_storage(SHARDPROOF_TESTDATA, false);
  const SafetensorsHeader header = read_shard_header(*storage, "python.safetensors");
  EXPECT_EQ(header.metadata.at("origin"), "python");
  EXPECT_EQ(header.metadata.at("note"), "\xc3\xa4");
  ASSERT_EQ(header.entries.size(), 7u);
  EXPECT_EQ(header.find("a.weight")->shape, (Shape{2, 3}));
  EXPECT_EQ(header.find("a.weight")->dtype, Dtype::f32);
  EXPECT_EQ(values<float>(*storage, header, "a.weight"),
            (std::vector<float>{0, 0.5, 1, 1.5, 2, 2.5}));
  EXPECT_EQ(header.find("b.ids")->dtype, Dtype::i64);
  EXPECT_EQ(values<std::int64_t>(*storage, header, "b.ids"),
            (std::vector<std::int64_t>{-1, 0, std::int64_t{1} << 40}));
  EXPECT_EQ(header.find("c.bytes")->dtype, Dtype::u8);
  EXPECT_EQ(values<std::uint8_t>(*storage, header, "c.bytes"),
            (std::vector<std::uint8_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(header.find("d.scale")->dtype, Dtype::f16);
  EXPECT_EQ(header.find("d.scale")->shape, Shape{});
  EXPECT_EQ(f16_to_float(values<std::uint16_t>(*storage, header, "d.scale").at(0)), 1.5f);
  EXPECT_EQ(header.find("e.empty")->shape, (Shape{2, 0}));
  EXPECT_TRUE(values<double>(*storage, header, "e.empty").empty());
  EXPECT_EQ(header.find("f.double")->dtype, Dtype::f64);
  EXPECT_EQ(values<double>(*storage, header, "f.double"), std::vector<double>{0.1});
  EXPECT_EQ(header.find("g.int")->dtype, Dtype::i32);
  EXPECT_EQ(values<std::int32_t>(*storage, header, "g.int"), std::vector<std::int32_t>{7});
}

}  // namespace
}  // namespace shardproof

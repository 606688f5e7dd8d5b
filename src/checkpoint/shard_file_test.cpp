// ctest: unit
// shard_file: what is written parses and reads back; digests of the head, of each block and over
// them; bad items and hostile headers are refused.
#include "checkpoint/shard_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::State;

TEST(ShardFile, WritesWhatItSays) {
  const auto storage = memory_storage();
  State state = testing::small_state(1);
  const auto items = state.items<SaveItem>(1, state.blocks());
  const WrittenShard shard = write_shard(storage.get(), "f", {{"key", "value"}}, items);
  const auto bytes = testing::read_file(*storage, "f");
  EXPECT_EQ(shard.file.file, "f");
  EXPECT_EQ(shard.file.bytes, bytes.size());
  const SafetensorsHeader header = read_shard_header(*storage, "f");
  EXPECT_EQ(shard.file.head, header.data_begin);
  EXPECT_EQ(shard.file.head_sha256, sha256(bytes.data(), header.data_begin));
  std::string digests = shard.file.head_sha256.hex();  // of the whole, by hand
  for (const ManifestEntry& entry : shard.entries) {
    for (const Digest& block : entry.blocks) digests += block.hex();
  }
  std::string list;
  for (std::size_t i = 0; i < digests.size(); i += 2) {
    list += static_cast<char>(std::stoi(digests.substr(i, 2), nullptr, 16));
  }
  EXPECT_EQ(shard.file.digest, sha256(list));
  EXPECT_EQ(header.metadata.at("key"), "value");
  ASSERT_EQ(header.entries.size(), items.size());
  ASSERT_EQ(shard.entries.size(), items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ManifestEntry& entry = shard.entries[i];
    const SafetensorsEntry* tensor = header.find(entry.tensor);
    ASSERT_NE(tensor, nullptr) << entry.tensor;
    EXPECT_EQ(header.data_begin + tensor->begin, entry.begin);
    EXPECT_EQ(header.data_begin + tensor->end, entry.end);
    EXPECT_EQ(std::memcmp(bytes.data() + entry.begin, items[i].data, entry.end - entry.begin), 0);
    EXPECT_EQ(entry.blocks.size(),
              static_cast<std::size_t>((entry.range.size() + 1023) / block_elements));
    EXPECT_EQ(entry.blocks[0], sha256(bytes.data() + entry.begin,
                                      std::min<std::size_t>(4096, entry.end - entry.begin)));
  }
  // A whole piece keeps its shape, a run of one is flat.
  EXPECT_EQ(header.find("a.weight/param/0/1024")->shape, (Shape{376}));
  EXPECT_EQ(header.find("a.weight/param/1/0")->shape, (Shape{20, 70}));
  EXPECT_EQ(header.find("c.scale/param/0/0")->shape, Shape{});
}

TEST(ShardFile, WithoutAStorageItComputesTheSame) {
  const auto storage = memory_storage();
  State state = testing::small_state(2);
  const auto items = state.items<SaveItem>(0, state.blocks());
  const WrittenShard written = write_shard(storage.get(), "f", {}, items);
  const WrittenShard computed = write_shard(nullptr, "f", {}, items);
  EXPECT_EQ(computed.file.digest, written.file.digest);
  ASSERT_EQ(computed.entries.size(), written.entries.size());
  for (std::size_t i = 0; i < written.entries.size(); ++i) {
    EXPECT_EQ(computed.entries[i].blocks, written.entries[i].blocks);
    EXPECT_EQ(computed.entries[i].begin, written.entries[i].begin);
  }
}

// More blocks than one chunk holds, and a short last one.
TEST(ShardFile, ChunksDoNotShow) {
  const std::int64_t elements = (chunk_blocks * 2 + 3) * block_elements + 7;
  State state(cut("big", {elements}, -1, 1), {"param"}, 3, Dtype::u8);
  const auto storage = memory_storage();
  const WrittenShard shard =
      write_shard(storage.get(), "f", {}, state.items<SaveItem>(0, state.blocks()));
  const ManifestEntry& entry = shard.entries[0];
  ASSERT_EQ(entry.blocks.size(), static_cast<std::size_t>(chunk_blocks * 2 + 4));
  const std::byte* data = state.tensors()[0].bytes.data();
  EXPECT_EQ(entry.blocks[0], sha256(data, 1024));
  EXPECT_EQ(entry.blocks[static_cast<std::size_t>(chunk_blocks)],
            sha256(data + chunk_blocks * 1024, 1024));
  EXPECT_EQ(entry.blocks.back(), sha256(data + elements - 7, 7));
  std::vector<std::byte> tail(1024 + 7);
  read_blocks(*storage, entry, chunk_blocks * 2 + 2, 2, tail);
  EXPECT_EQ(std::memcmp(tail.data(), data + elements - 1031, 1031), 0);
}

TEST(ShardFile, ItemsThatAreNoRunsOfBlocksAreRefused) {
  State state(cut("w", {3000}, -1, 1), {"param"}, 1);
  SaveItem item = state.items<SaveItem>(0, 3)[0];
  const auto expect_refused = [&](ElementRange range, const void* data) {
    SaveItem bad = item;
    bad.range = range;
    bad.data = data;
    const Error error = error_of([&] { write_shard(nullptr, "f", {}, std::span(&bad, 1)); });
    EXPECT_EQ(error.kind(), ErrorKind::bad_input);
    EXPECT_TRUE(contains(error.place(), "w/param piece 0")) << error.what();
  };
  for (const ElementRange range :
       {ElementRange{-1024, 1024}, {0, 1000}, {1, 1024}, {2048, 1024}, {0, 3001}, {2048, 4096}}) {
    expect_refused(range, item.data);
  }
  expect_refused({0, 3000}, nullptr);
  item.range = {1024, 1024};  // nothing, which is legal
  item.data = nullptr;
  EXPECT_TRUE(write_shard(nullptr, "f", {}, std::span(&item, 1)).entries.empty());
}

TEST(ShardFile, ReadBlocksNamesTheDamagedBlock) {
  State state(cut("w", {3000}, -1, 1), {"param"}, 1);
  const auto storage = memory_storage();
  const WrittenShard shard = write_shard(storage.get(), "f", {}, state.items<SaveItem>(0, 3));
  const ManifestEntry& entry = shard.entries[0];
  auto bytes = testing::read_file(*storage, "f");
  bytes[entry.begin + 5000] ^= std::byte{1};
  testing::replace_file(*storage, "f", bytes);
  std::vector<std::byte> out(4096);
  read_blocks(*storage, entry, 0, 1, out);  // its neighbour is whole
  const Error error = error_of([&] { read_blocks(*storage, entry, 1, 1, out); });
  EXPECT_EQ(error.kind(), ErrorKind::corrupt);
  EXPECT_EQ(error.place(), "f: w/param piece 0 [0:3000], bytes [" +
                               std::to_string(entry.begin + 4096) + ", " +
                               std::to_string(entry.begin + 8192) + ")");
}

TEST(ShardFile, HostileHeadersAreRefusedBeforeTheyAreRead) {
  const auto storage = memory_storage();
  const auto expect_corrupt = [&](const std::string& text) {
    testing::replace_file(*storage, "f", std::as_bytes(std::span(text)));
    EXPECT_EQ(error_of([&] { read_shard_header(*storage, "f"); }).kind(), ErrorKind::corrupt);
  };
  expect_corrupt("");
  expect_corrupt("1234567");
  expect_corrupt(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));  // 9 exabytes of header
  expect_corrupt(std::string("\x00\x00\x00\x40\x00\x00\x00\x00{}", 10));  // 1 GiB
  expect_corrupt(std::string("\x09\x00\x00\x00\x00\x00\x00\x00{}", 10));
  expect_corrupt(std::string("\x02\x00\x00\x00\x00\x00\x00\x00{", 9));
}

RC_GTEST_PROP(ShardFile, AnyRunsReadBackByBlocks, ()) {
  const auto elements = *rc::gen::inRange<std::int64_t>(1, 6000);
  const auto dtype = *rc::gen::element(Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::u8);
  State state(cut("w", {elements}, 0, 1), {"param"}, 5, dtype);
  const auto begin = *rc::gen::inRange<std::int64_t>(0, state.blocks());
  const auto end = *rc::gen::inRange<std::int64_t>(begin + 1, state.blocks() + 1);
  const auto storage = memory_storage();
  const auto items = state.items<SaveItem>(begin, end);
  const ManifestEntry entry = write_shard(storage.get(), "f", {}, items).entries.at(0);
  const auto first = *rc::gen::inRange<std::int64_t>(0, end - begin);
  const auto count = *rc::gen::inRange<std::int64_t>(1, end - begin - first + 1);
  const BlockRun run = block_run(entry, first, count);
  std::vector<std::byte> out(run.end - run.begin);
  read_blocks(*storage, entry, first, count, out);
  const auto* data = static_cast<const std::byte*>(items[0].data);
  RC_ASSERT(std::memcmp(out.data(), data + (run.begin - entry.begin), out.size()) == 0);
}

}  // namespace
}  // namespace shardproof

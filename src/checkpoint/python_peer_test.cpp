// ctest: peer
// The safetensors package for Python opens the shards of a checkpoint and sees the same tensors; a
// file that it writes now opens here. Skipped (77) where python3 has no safetensors or numpy.
#include <gtest/gtest.h>

#include <cstdio>

#include "base/json.h"
#include "base/shell_testing.h"
#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/shard_file.h"

namespace shardproof {
namespace {

using testing::State;

// Standard output of the script; `code` is its exit code.
std::string peer(const std::string& arguments, int& code) {
  const std::string command = "python3 '" SHARDPROOF_TESTDATA "/peer.py' " + arguments + " 2>&1";
  return testing::output_of(command, code);
}

TEST(PythonPeer, OpensEveryShardAndSeesTheSameTensors) {
  const TempFolder directory;
  const auto storage = posix_storage(directory.path(), false);
  State state = testing::small_state(1);
  testing::write_small(*storage, 3, "a", state);
  const Manifest manifest = read_manifest(*storage, "a");
  std::size_t seen = 0;
  for (const ShardFileRef& file : manifest.files) {
    int code = -1;
    const std::string text = peer("read '" + directory.file(file.file) + "'", code);
    ASSERT_EQ(code, 0) << text;
    const Json json = parse_json(text, "peer.py");
    EXPECT_EQ(json["metadata"]["checkpoint"], "a");
    for (const ManifestEntry& entry : manifest.entries) {
      if (entry.file != file.file) continue;
      ASSERT_TRUE(json["tensors"].contains(entry.tensor)) << entry.tensor;
      const Json& tensor = json["tensors"][entry.tensor];
      EXPECT_EQ(tensor["dtype"], "float32");
      EXPECT_EQ(element_count(tensor["shape"].get<Shape>()), entry.range.size());
      std::vector<std::byte> bytes(entry.end - entry.begin);
      storage->read(entry.file, entry.begin, bytes);
      EXPECT_EQ(tensor["sha256"], sha256(bytes.data(), bytes.size()).hex());
      ++seen;
    }
  }
  EXPECT_EQ(seen, manifest.entries.size());
}

TEST(PythonPeer, WritesAFileThatOpensHere) {
  const TempFolder directory;
  const auto storage = posix_storage(directory.path(), false);
  int code = -1;
  const std::string text = peer("write '" + directory.file("f") + "'", code);
  ASSERT_EQ(code, 0) << text;
  const SafetensorsHeader header = read_shard_header(*storage, "f");
  ASSERT_NE(header.find("f.double"), nullptr);
  EXPECT_EQ(header.find("f.double")->dtype, Dtype::f64);
  EXPECT_EQ(header.find("a.weight")->shape, (Shape{2, 3}));
  EXPECT_EQ(header.metadata.at("origin"), "python");
  double value = 0;
  storage->read("f", header.data_begin + header.find("f.double")->begin,
                std::as_writable_bytes(std::span(&value, 1)));
  EXPECT_EQ(value, 0.1);
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int code = -1;
  const std::string text = shardproof::peer("check", code);
  if (code == 77 || code == 127) {
    std::printf("skipped: %s", text.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}

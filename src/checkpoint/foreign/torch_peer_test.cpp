// ctest: peer timeout=180
// PyTorch writes checkpoints now: each tensor read here has the bytes that PyTorch says. Skipped
// (77) where no Python has PyTorch (ci/install --peers).
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>

#include "base/json.h"
#include "base/shell_testing.h"
#include "base/temp_folder.h"
#include "checkpoint/foreign/foreign.h"

namespace shardproof::foreign {
namespace {

// Standard output of the script; `code` is its exit code.
std::string peer(const std::string& arguments, int& code) {
  const std::string command = "timeout 150 '" SHARDPROOF_PEERS_PYTHON "' '" SHARDPROOF_TESTDATA
                              "/foreign.py' " +
                              arguments + " 2>/dev/null";
  return testing::output_of(command, code);
}

TEST(TorchPeer, WritesWhatIsReadHereBitForBit) {
  const TempFolder folder;
  int code = -1;
  const std::string text = peer("write '" + folder.path() + "'", code);
  ASSERT_EQ(code, 0) << text;
  const Json expected = parse_json(text, "foreign.py");
  std::size_t compared = 0;
  for (const auto& file : expected.items()) {
    Checkpoint checkpoint = read_foreign(folder.file(file.key()));
    for (const Damage& damage : checkpoint.damages) ADD_FAILURE() << damage.where << damage.found;
    for (const auto& digest : file.value().items()) {
      ASSERT_TRUE(checkpoint.tensors.contains(digest.key())) << digest.key();
      EXPECT_EQ(digest_of(checkpoint, checkpoint.tensors.at(digest.key())).hex(), digest.value())
          << file.key() << ": " << digest.key();
      ++compared;
    }
  }
  EXPECT_EQ(compared, 7u + 3u);
  for (const char* damaged : {"hole", "overlap", "bounds", "place"}) {
    std::filesystem::copy_file(folder.file(damaged + std::string(".metadata")),
                               folder.file("dcp/.metadata"),
                               std::filesystem::copy_options::overwrite_existing);
    EXPECT_FALSE(read_foreign(folder.file("dcp")).damages.empty()) << damaged;
  }
}

}  // namespace
}  // namespace shardproof::foreign

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  int code = -1;
  const std::string text = shardproof::foreign::peer("check", code);
  if (code == 77 || code == 127) {
    std::printf("skipped: no PyTorch for Python: %s", text.c_str());
    return 77;
  }
  return RUN_ALL_TESTS();
}

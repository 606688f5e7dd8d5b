// ctest: peer timeout=900 processors=2
// `accept --subject` on real PyTorch programs: right layouts pass every check, each planted mistake
// is killed by the check of its row, look-alikes stay quiet. Skipped (77) where no Python has
// PyTorch (ci/install --peers).
#include "harness/subjects/accept_testing.h"

namespace shardproof {
namespace {

TEST(AcceptPyTorch, PassesItsLayouts) {
  expect_all_pass(accept("pytorch.toml"), 41);
}

TEST(AcceptPyTorch, KillsEveryMistakeAndNoLookAlike) {
  const std::vector<Row> rows = accept("mistakes.toml");
  EXPECT_EQ(count(rows, "expected-fail"), 12);
  EXPECT_EQ(count(rows, "pass") + 12, static_cast<std::int64_t>(rows.size()));
  EXPECT_GE(count(rows, "pass"), 11) << "the reference and three look-alikes";
}

TEST(AcceptPyTorch, PassesAScriptOfSomebodyElseWithSixLines) {
  expect_all_pass(accept("torchrun.toml"), 8);
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto has_torch = shardproof::run_with_peers(
      {SHARDPROOF_PEERS_PYTHON, "-c", "import torch.distributed.fsdp"}, std::chrono::seconds(100));
  if (has_torch.exit_code != 0) {
    fmt::print("skipped: {} has no torch.distributed\n", SHARDPROOF_PEERS_PYTHON);
    return 77;
  }
  return RUN_ALL_TESTS();
}

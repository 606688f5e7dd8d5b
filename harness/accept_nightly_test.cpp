// ctest: invariant timeout=1800 processors=2 nightly
// The main job on dense layouts: `shardproof accept --layout L` proves the same verdicts on each.
#include <gtest/gtest.h>

#include "base/temp_folder.h"
#include "harness/child.h"

namespace shardproof {
namespace {

TEST(AcceptNightly, ProvesAnyDenseLayout) {
  for (const char* layout : {"dp2.tp2.pp2.zero1", "dp2.fsdp", "dp4.zero3-shard2", "dp2.zero2",
                             "pp2-zb", "cp2-ulysses", "tp2.sp", "dp2.cp2.zero3", "dp2.pp2.zero2"}) {
    SCOPED_TRACE(layout);
    const TempFolder folder;
    const ChildResult child = run_child(
        {SHARDPROOF_COMMAND, "accept", "--layout", layout, "--out", folder.file("report")},
        std::chrono::seconds(180));
    EXPECT_EQ(child.exit_code, 0) << child.output.substr(0, 6000);
  }
}

}  // namespace
}  // namespace shardproof

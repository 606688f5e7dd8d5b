// ctest: fault timeout=60 processors=2
// Of the checkpoints of a run, the newest without damage, and none of more steps than asked.
#include "harness/newest_whole.h"

#include <gtest/gtest.h>

#include "harness/supervisor_testing.h"

namespace shardproof {
namespace {

TEST(NewestWhole, PassesOverDamageAndSaysIt) {
  RunRequest request;
  request.config = supervised_case("dp2.zero1", "file:0:link.2:after!corrupt_shard", 0);
  request.storage = memory_storage();
  EXPECT_EQ(newest_whole(*request.storage, nullptr), "");
  run_on_threads(request);
  std::vector<std::string> said;
  const auto say = [&](const std::string& id, const Damage& damage) {
    said.push_back(text(id, damage));
  };
  EXPECT_EQ(newest_whole(*request.storage, say), "step-00000004");
  ASSERT_EQ(said.size(), 1U);
  EXPECT_TRUE(said[0].starts_with("checkpoint step-00000006 is damaged: ")) << said[0];
  EXPECT_NE(said[0].find("expected "), std::string::npos) << said[0];
  EXPECT_EQ(newest_whole(*request.storage, say, 5), "step-00000004");
  EXPECT_EQ(said.size(), 1U) << "one of more steps is not looked at";
  EXPECT_EQ(newest_whole(*request.storage, say, 3), "step-00000002");
  EXPECT_EQ(newest_whole(*request.storage, say, 1), "");
}

}  // namespace
}  // namespace shardproof

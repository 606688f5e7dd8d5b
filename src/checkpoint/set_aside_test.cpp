// ctest: comm
// set_aside: damaged ones behind the chosen one go out of sight, whole and older ones stay, and
// nothing is deleted.
#include "checkpoint/set_aside.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::small_facts;
using testing::small_state;
using testing::State;
using Ids = std::vector<std::string>;

TEST(SetAside, DamagedOnesBehindTheChosen) {
  const auto storage = memory_storage();
  for (const int step : {1, 2, 3, 4}) {
    State state = small_state(static_cast<std::uint64_t>(step));
    testing::write_small(*storage, 1, step_id(step), state, small_facts(step));
  }
  const auto damage = [&](int step) {
    const std::string file = read_manifest(*storage, step_id(step)).files[0].file;
    auto bytes = testing::read_file(*storage, file);
    bytes.back() ^= std::byte{1};
    testing::replace_file(*storage, file, bytes);
    return file;
  };
  damage(1);
  const std::string shard = damage(3);
  EXPECT_EQ(set_aside_damaged(*storage, step_id(2)), Ids{step_id(3)});
  EXPECT_EQ(list_checkpoints(*storage), (Ids{step_id(1), step_id(2), step_id(4)}));
  EXPECT_TRUE(storage->exists("step-00000003.damaged-0.json"));
  EXPECT_TRUE(storage->exists(shard));
  // The id is free: saved again, damaged again, it goes beside the first.
  State again = small_state(3);
  testing::write_small(*storage, 1, step_id(3), again, small_facts(3));
  EXPECT_TRUE(verify_checkpoint(*storage, step_id(3)).empty());
  EXPECT_EQ(set_aside_damaged(*storage, step_id(2)), Ids{});
  testing::replace_file(*storage, manifest_path(step_id(3)), {});
  EXPECT_EQ(set_aside_damaged(*storage, step_id(2)), Ids{step_id(3)});
  EXPECT_TRUE(storage->exists("step-00000003.damaged-1.json"));
}

TEST(SetAside, ThoseFromAStepOnAndTheNewestBefore) {
  const auto storage = memory_storage();
  for (const int step : {2, 4, 6}) {
    State state = small_state(static_cast<std::uint64_t>(step));
    testing::write_small(*storage, 1, step_id(step), state, small_facts(step));
  }
  EXPECT_EQ(set_aside_from(*storage, 7), step_id(6));
  EXPECT_EQ(set_aside_from(*storage, 4), step_id(2));
  EXPECT_EQ(list_checkpoints(*storage), Ids{step_id(2)});
  EXPECT_TRUE(storage->exists("step-00000004.spiked-0.json"));
  EXPECT_TRUE(storage->exists("step-00000006.spiked-0.json"));
  testing::replace_file(*storage, manifest_path(step_id(2)), {});
  EXPECT_EQ(set_aside_from(*storage, 4), "");  // one that cannot be read is no place to go back to
  EXPECT_EQ(list_checkpoints(*storage), Ids{step_id(2)});
  EXPECT_EQ(set_aside_from(*storage, 1), "");
}

}  // namespace
}  // namespace shardproof

// ctest: comm
// retention: what stays, in which order the rest goes, and that no crash takes the last whole one.
#include "checkpoint/retention.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

using testing::contains;
using testing::error_of;
using testing::FailingStorage;
using testing::small_facts;
using testing::small_state;
using testing::State;
using Ids = std::vector<std::string>;

std::vector<SavedStep> steps(std::initializer_list<std::int64_t> list) {
  std::vector<SavedStep> out;
  for (const std::int64_t step : list) out.push_back({step_id(step), step});
  return out;
}

TEST(Outdated, AllButTheLastAndTheMilestones) {
  const auto saved = steps({10, 20, 30, 40, 50});
  EXPECT_EQ(outdated(saved, {}), Ids{});
  EXPECT_EQ(outdated(saved, {0, 20}), Ids{});  // all stay
  EXPECT_EQ(outdated(saved, {2, 0}), (Ids{step_id(10), step_id(20), step_id(30)}));
  EXPECT_EQ(outdated(saved, {2, 20}), (Ids{step_id(10), step_id(30)}));
  EXPECT_EQ(outdated(saved, {5, 0}), Ids{});
  EXPECT_EQ(outdated(saved, {9, 0}), Ids{});
  EXPECT_EQ(outdated({}, {1, 0}), Ids{});
}

RC_GTEST_PROP(Outdated, TheNewestStayWhateverIsAsked, ()) {
  std::vector<SavedStep> saved;
  for (int i = *rc::gen::inRange(0, 12), step = 0; i > 0; --i) {
    step += *rc::gen::inRange(1, 9);
    saved.push_back({step_id(step), step});
  }
  const Retention retention{*rc::gen::inRange(0, 5), *rc::gen::inRange<std::int64_t>(0, 6)};
  const Ids gone = outdated(saved, retention);
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const bool late = saved.size() - i <= static_cast<std::size_t>(retention.last);
    const bool milestone = retention.every > 0 && saved[i].step % retention.every == 0;
    const bool stays = retention.last == 0 || late || milestone;
    RC_ASSERT(stays == (std::find(gone.begin(), gone.end(), saved[i].id) == gone.end()));
  }
}

void save_steps(Storage& storage, std::initializer_list<std::int64_t> list) {
  for (const std::int64_t step : list) {
    State state = small_state(static_cast<std::uint64_t>(step));
    testing::write_small(storage, 2, step_id(step), state, small_facts(step));
  }
}

TEST(Prune, LeavesNothingOfWhatGoesAndAllOfWhatStays) {
  const auto storage = memory_storage();
  save_steps(*storage, {10, 20, 30, 40});
  const PruneReport report = prune(*storage, {2, 0});
  EXPECT_EQ(report.removed, (Ids{step_id(10), step_id(20)}));
  EXPECT_EQ(report.kept_because, "");
  EXPECT_EQ(list_checkpoints(*storage), (Ids{step_id(30), step_id(40)}));
  for (const std::string& id : list_checkpoints(*storage)) {
    EXPECT_TRUE(verify_checkpoint(*storage, id).empty());
  }
  EXPECT_EQ(storage->list("").size(), 4u);  // two manifests, two folders
}

class CountedManifests : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  void read(const std::string& path, std::uint64_t offset, std::span<std::byte> out) override {
    if (path.ends_with(".manifest.json")) ++reads[path];
    ForwardingStorage::read(path, offset, out);
  }
  std::map<std::string, int> reads;
};

TEST(Prune, ReadsEachManifestOnceAndTheNewestAgainToVerifyIt) {
  CountedManifests storage(memory_storage());
  save_steps(storage, {10, 20, 30, 40});
  storage.reads.clear();
  EXPECT_EQ(prune(storage, {2, 0}).removed.size(), 2u);
  const std::map<std::string, int> expected = {{manifest_path(step_id(10)), 1},
                                               {manifest_path(step_id(20)), 1},
                                               {manifest_path(step_id(30)), 1},
                                               {manifest_path(step_id(40)), 2}};
  EXPECT_EQ(storage.reads, expected);
}

TEST(Prune, NothingGoesWhileTheNewestIsDamaged) {
  const auto storage = memory_storage();
  save_steps(*storage, {10, 20});
  const std::string file = read_manifest(*storage, step_id(20)).files[0].file;
  auto bytes = testing::read_file(*storage, file);
  bytes.back() ^= std::byte{1};
  testing::replace_file(*storage, file, bytes);
  const PruneReport report = prune(*storage, {1, 0});
  EXPECT_TRUE(report.removed.empty());
  EXPECT_TRUE(contains(report.kept_because, step_id(20))) << report.kept_because;
  EXPECT_TRUE(verify_checkpoint(*storage, step_id(10)).empty());
}

TEST(Prune, AnUnreadableManifestIsNeitherCountedNorTouched) {
  const auto storage = memory_storage();
  save_steps(*storage, {10, 20, 30});
  testing::replace_file(*storage, manifest_path(step_id(30)), {});
  EXPECT_EQ(prune(*storage, {1, 0}).removed, Ids{step_id(10)});
  EXPECT_TRUE(storage->exists(manifest_path(step_id(30))));
  EXPECT_TRUE(verify_checkpoint(*storage, step_id(20)).empty());
}

TEST(Prune, WhatOthersLeftStays) {
  const auto storage = memory_storage();
  save_steps(*storage, {10, 20});
  const std::string own = read_manifest(*storage, step_id(10)).files[0].file;
  const std::string folder = own.substr(0, own.find('/'));
  storage->make_directory("step-00000010.shards-feedfeedfeedfeed");  // a save under way elsewhere
  storage->create(folder + "/notes.txt")->close();
  prune(*storage, {1, 0});
  EXPECT_TRUE(storage->exists("step-00000010.shards-feedfeedfeedfeed"));
  EXPECT_EQ(storage->list(folder), Ids{"notes.txt"});
}

// Killed before, in and after every operation: what stays is whole, what was on its way out is gone
// or whole, and the next prune leaves what an uncut one would have left.
TEST(Prune, ACrashAtAnyOperationLosesNothingAndIsFinishedLater) {
  int fired = 0;
  for (const auto when : {FailingStorage::When::before, FailingStorage::When::after}) {
    for (int at = 0;; ++at) {
      const std::shared_ptr<Storage> storage = memory_storage();
      save_steps(*storage, {10, 20, 30});
      FailingStorage failing(storage, at, when, true);
      try {
        prune(failing, {1, 0});
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::io);
      }
      if (!failing.fired()) break;
      ++fired;
      SCOPED_TRACE(failing.log().back());
      EXPECT_TRUE(verify_checkpoint(*storage, step_id(30)).empty());
      for (const std::string& id : list_checkpoints(*storage)) {
        EXPECT_TRUE(verify_checkpoint(*storage, id).empty()) << id;
      }
      prune(*storage, {1, 0});
      EXPECT_EQ(list_checkpoints(*storage), Ids{step_id(30)});
      EXPECT_EQ(storage->list("").size(), 2u);  // no record, no folder left
    }
  }
  EXPECT_GT(fired, 30);
}

TEST(FinishRemovals, ARecordThatCannotBeReadIsNamedAndStays) {
  const auto storage = memory_storage();
  save_steps(*storage, {10});
  storage->create("step-00000007.removed.json")->close();
  EXPECT_EQ(finish_removals(*storage), Ids{"step-00000007.removed.json"});
  EXPECT_TRUE(storage->exists("step-00000007.removed.json"));
  EXPECT_EQ(error_of([&] { remove_checkpoint(*storage, "none"); }).kind(), ErrorKind::bad_input);
}

// An id that was removed and saved again keeps its new shards.
TEST(FinishRemovals, TheNewCheckpointOfAnIdIsNotTheOldOne) {
  const std::shared_ptr<Storage> storage = memory_storage();
  save_steps(*storage, {10, 20});
  const std::string old = read_text(*storage, manifest_path(step_id(10)), 1 << 20);
  remove_checkpoint(*storage, step_id(10));
  State again = small_state(99);
  testing::write_small(*storage, 1, step_id(10), again, small_facts(10));
  const auto record = storage->create("step-00000010.removed.json");  // as a crash leaves it
  record->write(std::as_bytes(std::span(old)));
  record->close();
  EXPECT_TRUE(finish_removals(*storage).empty());
  EXPECT_TRUE(verify_checkpoint(*storage, step_id(10)).empty());
  EXPECT_FALSE(storage->exists("step-00000010.removed.json"));
}

}  // namespace
}  // namespace shardproof

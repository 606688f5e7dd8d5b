// ctest: comm timeout=60
// orphans: what a killed save leaves goes when it is old enough, whatever point it was killed at;
// nothing that a manifest, a record or a damaged one names goes; a slow writer fails and commits
// nothing.
#include "checkpoint/orphans.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint_testing.h"
#include "checkpoint/retention.h"
#include "checkpoint/set_aside.h"

namespace shardproof {
namespace {

using testing::error_of;
using testing::FailingStorage;
using testing::small_facts;
using testing::small_state;
using testing::State;
using Ids = std::vector<std::string>;

constexpr auto any_age = [](const std::string&) { return true; };

void save(Storage& storage, std::int64_t step) {
  State state = small_state(static_cast<std::uint64_t>(step));
  testing::write_small(storage, 1, step_id(step), state, small_facts(step));
}

TEST(Orphans, AKilledSaveLeavesNothingButPerhapsANameThatIsTaken) {
  int fired = 0, orphans = 0;
  for (const auto when :
       {FailingStorage::When::before, FailingStorage::When::torn, FailingStorage::When::after}) {
    for (int at = 0;; ++at) {
      const std::shared_ptr<Storage> storage = memory_storage();
      save(*storage, 10);
      FailingStorage failing(storage, at, when, true);
      try {
        save(failing, 20);
      } catch (const Error&) {  // killed
      }
      if (!failing.fired()) break;
      ++fired;
      SCOPED_TRACE(failing.log().back());
      const Ids whole = list_checkpoints(*storage);
      EXPECT_TRUE(
          remove_orphans(*storage, [](const std::string&) { return false; }).removed.empty());
      const OrphanReport report = remove_orphans(*storage, any_age);
      orphans += static_cast<int>(report.removed.size());
      EXPECT_EQ(list_checkpoints(*storage), whole);
      for (const std::string& id : whole)
        EXPECT_TRUE(verify_checkpoint(*storage, id).empty()) << id;
      int folders = 0;
      for (const std::string& name : storage->list(""))
        folders += name.find(".shards-") != name.npos;
      EXPECT_EQ(folders, static_cast<int>(whole.size()));
      EXPECT_TRUE(remove_orphans(*storage, any_age).removed.empty());
      save(*storage, 20);  // the id is as free as before
      EXPECT_TRUE(verify_checkpoint(*storage, step_id(20)).empty());
    }
  }
  EXPECT_GT(fired, 20);
  EXPECT_GT(orphans, 10);
}

// Before each of its operations in turn all orphans are removed: a save ends in an Error or is
// whole.
class RemovesBefore : public ForwardingStorage {
 public:
  RemovesBefore(std::shared_ptr<Storage> inner, int at)
      : ForwardingStorage(inner), outside_(std::move(inner)), at_(at) {}
  bool fired() const { return count_ > at_; }

  std::unique_ptr<File> create(const std::string& path) override {
    step();
    return inner().create(path);
  }
  void sync_directory(const std::string& path) override {
    step();
    inner().sync_directory(path);
  }
  void link(const std::string& from, const std::string& to) override {
    step();
    inner().link(from, to);
  }
  void remove(const std::string& path) override {
    step();
    inner().remove(path);
  }

 private:
  void step() {
    if (count_++ == at_) remove_orphans(*outside_, any_age);
  }
  std::shared_ptr<Storage> outside_;
  int at_;
  int count_ = 0;
};

TEST(Orphans, AWriterThatIsOnlySlowCommitsNothingOrEverything) {
  int failed = 0, done = 0;
  for (int at = 0;; ++at) {
    const std::shared_ptr<Storage> storage = memory_storage();
    save(*storage, 10);
    RemovesBefore slow(storage, at);
    try {
      save(slow, 20);
      ++done;
    } catch (const Error&) {
      ++failed;
    }
    for (const std::string& id : list_checkpoints(*storage)) {
      EXPECT_TRUE(verify_checkpoint(*storage, id).empty()) << at << ": " << id;
    }
    if (!slow.fired()) break;
  }
  EXPECT_GT(failed, 3);
  EXPECT_GT(done, 1);
}

TEST(Orphans, WhatIsNamedOrMayBeStays) {
  const auto storage = memory_storage();
  for (const std::int64_t step : {10, 20, 30}) save(*storage, step);
  // Set aside, and unreadable.
  auto bytes = testing::read_file(*storage, manifest_path(step_id(30)));
  bytes[20] ^= std::byte{1};
  testing::replace_file(*storage, manifest_path(step_id(30)), bytes);
  set_aside_damaged(*storage, step_id(20));
  storage->make_directory("notes.shards-of-mine");
  const Ids before = storage->list("");
  EXPECT_TRUE(remove_orphans(*storage, any_age).removed.empty());
  EXPECT_EQ(storage->list(""), before);
}

}  // namespace
}  // namespace shardproof

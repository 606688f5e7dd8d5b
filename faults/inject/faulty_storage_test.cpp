// ctest: unit timeout=60
#include "faults/inject/faulty_storage.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"

namespace shardproof {
namespace {

// What would end a process throws here.
struct Ended {};
class Powers : public RankPowers {
 public:
  void end(FaultKind, const FaultPoint&) override { throw Ended{}; }
  void stand_still(const FaultPoint&) override { throw Ended{}; }
  void sleep(Duration duration) override { slept += duration; }
  void jump_clock(Duration by) override { jumped += by; }
  Duration slept{}, jumped{};
};

class FaultyStorageTest : public testing::Test {
 protected:
  void inject(const std::string& faults) {
    InjectorParts parts;
    parts.faults = parse_faults(faults, "test");
    parts.powers = powers;
    parts.fired = [this](const Fault& fault) { fired.push_back(fault.text()); };
    storage = std::make_shared<FaultyStorage>(disk, std::make_shared<Injector>(std::move(parts)));
  }
  void put(Storage& where, const std::string& path, const std::string& text) {
    const auto file = where.create(path);
    file->write(std::as_bytes(std::span(text)));
    file->sync();
    file->close();
  }
  std::string at(const std::string& path) { return read_text(*disk, path, 100); }

  std::shared_ptr<Storage> disk = memory_storage();
  std::shared_ptr<Powers> powers = std::make_shared<Powers>();
  std::shared_ptr<FaultyStorage> storage;
  std::vector<std::string> fired;
};

TEST_F(FaultyStorageTest, AnOperationFailsOnceAndLeavesNothing) {
  inject("file:0:create.1:before!disk_full");
  put(*storage, "a", "first");
  expect_error(ErrorKind::io, {"No space left on device"}, [&] { put(*storage, "b", "second"); });
  EXPECT_FALSE(disk->exists("b"));
  put(*storage, "b", "second");
  EXPECT_EQ(at("b"), "second");
  EXPECT_EQ(fired.size(), 1U);
}

TEST_F(FaultyStorageTest, ATornWriteLeavesHalf) {
  inject("file:0:write.0:torn!kill");
  EXPECT_THROW(put(*storage, "a", "12345678"), Ended);
  EXPECT_EQ(at("a"), "1234");
  EXPECT_THROW(storage->remove("a"), Ended) << "the dead do nothing more";
  EXPECT_TRUE(disk->exists("a"));
}

TEST_F(FaultyStorageTest, NumbersCountEverything) {
  inject("file:0:2:after!exception");  // create, write, sync
  EXPECT_THROW(put(*storage, "a", "x"), std::runtime_error);
  EXPECT_EQ(at("a"), "x");
}

TEST_F(FaultyStorageTest, OtherRanksAreLeftAlone) {
  inject("file:1:create.0:before!io_error");
  put(*storage, "a", "x");
  EXPECT_TRUE(fired.empty());
}

TEST_F(FaultyStorageTest, ADelayFiresAsOftenAsTold) {
  inject("file:0:write.1:before!delay=2*3");
  for (const char* name : {"a", "b", "c", "d", "e"}) put(*storage, name, "x");
  EXPECT_EQ(fired.size(), 3U);
  EXPECT_EQ(powers->slept, std::chrono::seconds(6));
}

TEST_F(FaultyStorageTest, TheTimeOfDayJumpsWhereItIsTold) {
  inject("file:0:write.1:after!clock_jump=-90");
  put(*storage, "a", "x");
  EXPECT_EQ(powers->jumped, Duration::zero());
  put(*storage, "b", "x");
  EXPECT_EQ(fired.size(), 1U);
  EXPECT_EQ(powers->jumped, -std::chrono::seconds(90));
}

TEST_F(FaultyStorageTest, ShardsAreDamagedBehindTheirWriter) {
  disk->make_directory("c.shards-1");
  put(*disk, "c.shards-1/0.safetensors", "0123456789");
  put(*disk, "c.shards-1/1.safetensors", "abcdefghij");
  const auto link = [&](const std::string& kind) {
    inject("file:0:link.0:after!" + kind);
    put(*disk, "tmp-" + kind, "{}");
    storage->link("tmp-" + kind, "c.manifest.json");
    disk->remove("c.manifest.json");
  };
  link("swap_shards");
  EXPECT_EQ(at("c.shards-1/0.safetensors"), "abcdefghij");
  EXPECT_EQ(at("c.shards-1/1.safetensors"), "0123456789");
  link("truncate_shard");
  EXPECT_EQ(at("c.shards-1/0.safetensors"), "abcde");
  link("corrupt_shard");
  EXPECT_EQ(at("c.shards-1/0.safetensors"), "abbde");
  link("missing_shard");
  EXPECT_FALSE(disk->exists("c.shards-1/0.safetensors"));
  inject("file:0:link.0:after!swap_shards");
  put(*disk, "tmp", "{}");
  expect_error(ErrorKind::bad_input, {"no other shard"},
               [&] { storage->link("tmp", "c.manifest.json"); });
}

}  // namespace
}  // namespace shardproof

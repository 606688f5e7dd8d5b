// ctest: fault
// crash_states: for small lists of operations, exactly the states that the rules allow.
#include "faults/crash_states/crash_states.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"

namespace shardproof::crash {
namespace {

using Writer = std::function<void(Storage&)>;

void put(Storage& storage, const std::string& path, const std::string& text, bool sync) {
  const auto file = storage.create(path);
  file->write(std::as_bytes(std::span(text)));
  if (sync) file->sync();
  file->close();
}

// "d/ f=ab": directories and files, the zero byte as 0, stale blocks as ~.
std::string text(const Disk& disk) {
  std::string out;
  for (const auto& [path, content] : disk) {
    out += (out.empty() ? "" : " ") + path + (content.bytes ? "=" : "/");
    if (!content.bytes) continue;
    for (const std::byte byte : *content.bytes) {
      const char c = static_cast<char>(byte);
      out += c == '\0' ? '0' : byte == std::byte{0xa5} ? '~' : c;
    }
  }
  return out;
}

std::set<std::string> states(const Writer& given, const Writer& happens) {
  const std::shared_ptr<Storage> memory = memory_storage();
  const auto journal = std::make_shared<Journal>();
  const auto storage = recorded(memory, journal);
  given(*storage);
  journal->note(Operation::Kind::settle);
  journal->note(Operation::Kind::crash_from);
  happens(*storage);
  std::set<std::string> out;
  for_each_crash_state(journal->operations(), {}, [&](const CrashState& state) {
    EXPECT_TRUE(out.insert(text(state.disk)).second) << "twice: " << text(state.disk);
    return true;
  });
  return out;
}

using States = std::set<std::string>;
const Writer nothing = [](Storage&) {};

TEST(CrashStatesOf, AnUnsyncedFileAreAllFatesOfNameAndBytes) {
  const States found = states(nothing, [](Storage& s) { put(s, "f", "abcd", false); });
  EXPECT_EQ(found, (States{"", "f=", "f=abcd", "f=a", "f=ab", "f=abc", "f=0000", "f=00cd", "f=ab00",
                           "f=~~~~", "f=~~cd", "f=ab~~"}));
}

TEST(CrashStatesOf, ASyncedFileMayStillHaveNoName) {
  const States found = states([](Storage& s) { s.make_directory("d"); },
                              [](Storage& s) {
                                put(s, "d/f", "x", true);
                                s.sync_directory("d");
                              });
  EXPECT_EQ(found, (States{"d/", "d/ d/f=", "d/ d/f=x", "d/ d/f=0", "d/ d/f=~"}));
  const States after = states(
      [](Storage& s) {
        s.make_directory("d");
        put(s, "d/f", "x", true);
      },
      [](Storage& s) { s.sync_directory("d"); });
  EXPECT_EQ(after, States{"d/ d/f=x"});  // what is given is durable
}

TEST(CrashStatesOf, ADirectoryMayLoseItsOwnNameThoughSynced) {
  const States found = states(nothing, [](Storage& s) {
    s.make_directory("d");
    s.make_directory("d/e");
    s.sync_directory("d");
  });
  EXPECT_EQ(found, (States{"", "d/", "d/ d/e/"}));
}

TEST(CrashStatesOf, NamesComeInAnyCombination) {
  const States found = states([](Storage& s) { put(s, "old", "x", true); },
                              [](Storage& s) {
                                s.make_directory("a");
                                s.link("old", "new");
                                s.remove("old");
                              });
  EXPECT_EQ(found, (States{"old=x", "a/ old=x", "new=x old=x", "a/ new=x old=x", "", "a/", "new=x",
                           "a/ new=x"}));
}

TEST(CrashStatesOf, ALinkMayOvertakeTheBytesOfItsFileUnlessTheyAreSynced) {
  const auto linked = [](bool sync) {
    return states(nothing, [=](Storage& s) {
      put(s, "t", "ab", sync);
      s.link("t", "f");
    });
  };
  const States unsynced = linked(false);
  for (const char* bad : {"f=", "f=a", "f=00", "f=~~", "f= t=", "f=00 t=00"}) {
    EXPECT_TRUE(unsynced.contains(bad)) << bad;
  }
  EXPECT_FALSE(unsynced.contains("f=00 t=ab"));  // one file, whatever the name
  for (const std::string& state : linked(true)) {
    EXPECT_TRUE(!state.starts_with("f=") || state.starts_with("f=ab")) << state;
  }
}

TEST(CrashStatesOf, SyncedBytesStayAndLaterOnesMayGo) {
  const States found = states([](Storage&) {},
                              [](Storage& s) {
                                const auto file = s.create("f");
                                s.sync_directory("");
                                file->write(std::as_bytes(std::span("ab", 2)));
                                file->sync();
                                file->write(std::as_bytes(std::span("c", 1)));
                              });
  EXPECT_EQ(found, (States{"", "f=", "f=a", "f=ab", "f=00", "f=0b", "f=a0", "f=~~", "f=~b", "f=a~",
                           "f=abc", "f=ab0", "f=ab~"}));
}

TEST(CrashStatesOf, ManyPendingNamesAreBounded) {
  const auto made = [](int count) {
    return states(nothing,
                  [=](Storage& s) {
                    for (int i = 0; i < count; ++i) s.make_directory("d" + std::to_string(i));
                  })
        .size();
  };
  EXPECT_EQ(made(8), 256u);  // all combinations
  // 20: first parts, and all but, or none but, one or two; fewer than 2^20.
  EXPECT_LT(made(20), 8000u);
  EXPECT_GT(made(20), 800u);
}

TEST(CrashStatesOf, RanksInOneEpochComeInThreeOrders) {
  std::vector<Operation> operations(5);
  for (std::size_t i = 0; i < 5; ++i) operations[i].path = std::to_string(i);
  operations[0].rank = operations[1].rank = 1;  // two of rank 1, two of rank 0, then epoch 1
  operations[4].epoch = 1;
  const auto paths = [&](RankOrder order) {
    std::string out;
    for (const Operation& operation : ordered(operations, order)) out += operation.path;
    return out;
  };
  EXPECT_EQ(paths(RankOrder::ascending), "23014");
  EXPECT_EQ(paths(RankOrder::descending), "01234");
  EXPECT_EQ(paths(RankOrder::turns), "20314");
}

TEST(Disk, MountsReadOnlyAndCopies) {
  const std::shared_ptr<Storage> memory = memory_storage();
  Disk disk;
  disk["d"] = {};
  const std::vector<std::byte> bytes(3, std::byte{7});
  disk["d/f"] = {std::make_shared<const std::vector<std::byte>>(bytes), 1};
  copy(disk, *memory);
  const auto mounted = mount(disk);
  for (Storage* storage : {memory.get(), mounted.get()}) {
    EXPECT_EQ(storage->list(""), std::vector<std::string>{"d"});
    EXPECT_EQ(storage->list("d"), std::vector<std::string>{"f"});
    EXPECT_EQ(storage->size("d/f"), 3u);
    EXPECT_FALSE(storage->exists("f"));
    std::vector<std::byte> four(4);
    EXPECT_THROW(storage->read("d/f", 0, four), Error);
    EXPECT_THROW(storage->size("d"), Error);
  }
  EXPECT_THROW(mounted->create("g"), Error);
  EXPECT_THROW(mounted->remove("d/f"), Error);
}

}  // namespace
}  // namespace shardproof::crash

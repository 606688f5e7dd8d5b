// ctest: fault timeout=300
// Whatever system call of a save, a load or a verification fails, and with whatever errno that a
// file system may give: an Error that names operation, file and reason, the old checkpoint intact,
// nothing half-committed; an interrupted call and a short count are nobody's business.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"
#include "faults/crash_states/crash_world.h"
#include "faults/crash_states/judge.h"
#include "faults/damage/failing_calls_testing.h"

namespace shardproof::damage {
namespace {

namespace fs = std::filesystem;
using crash::facts_of;
using crash::Finding;
using crash::Judge;
using crash::small_state;
using crash::Verdict;

const std::map<std::string, std::set<std::uint64_t>> both = {{"step-1", {1}}, {"step-2", {2}}};

void save(Storage& storage, const std::string& id, std::uint64_t seed) {
  testing::State state = small_state(seed);
  testing::write_small(storage, 1, id, state, facts_of(id));
}

// What came of an action of which one call failed.
struct Outcome {
  std::string call;  // that failed; empty: there are fewer calls
  bool threw = false;
  ErrorKind kind = ErrorKind::io;
  std::string place;
  std::string detail;
  std::vector<Damage> damages;  // of a verification
};

using Action = std::function<std::vector<Damage>(Storage&)>;

Outcome attempt(const std::string& root, int at, Fault fault, int error, const Action& action) {
  Outcome out;
  const auto storage = posix_storage(root, false);
  arm(root, at, fault, error);
  try {
    out.damages = action(*storage);
  } catch (const Error& failure) {
    out.threw = true;
    out.kind = failure.kind();
    out.place = failure.place();
    out.detail = failure.detail();
  }
  const std::vector<std::string> calls = disarm();
  if (at < static_cast<int>(calls.size())) out.call = calls[static_cast<std::size_t>(at)];
  return out;
}

std::vector<std::string> calls_of(const std::string& root, const Action& action) {
  const auto storage = posix_storage(root, false);
  arm(root, -1, Fault::error, 0);
  action(*storage);
  return disarm();
}

// "write /root/file" names the call's own file; a call on the way to a file names that file.
void expect_named(const Outcome& outcome, const std::string& root, int error,
                  const std::string& where) {
  EXPECT_TRUE(outcome.kind == ErrorKind::io || outcome.kind == ErrorKind::environment) << where;
  EXPECT_NE(outcome.detail.find(std::generic_category().message(error)), std::string::npos)
      << where << ": " << outcome.detail;
  const std::size_t file = outcome.place.find(" " + root);
  ASSERT_NE(file, std::string::npos) << where << ": " << outcome.place;
  const std::string operation = outcome.place.substr(0, file);
  const std::string path = outcome.place.substr(file + 1);
  const std::map<std::string, std::string> names = {
      {"write", "write"}, {"pread", "read"},   {"close", "close"},
      {"linkat", "link"}, {"readdir", "list"}, {"mkdirat", "make directory"}};
  const std::string call = outcome.call.substr(0, outcome.call.find(' '));
  const std::string called = outcome.call.substr(call.size() + 1);
  if (names.contains(call)) {
    EXPECT_EQ(operation, names.at(call)) << where;
    EXPECT_EQ(path, called) << where;
  } else if (call == "fsync") {
    EXPECT_TRUE(operation == "fsync" || operation == "sync directory") << where << operation;
    EXPECT_EQ(path, called) << where;
  } else {
    EXPECT_FALSE(operation.empty()) << where;
    const std::string folder =
        called.ends_with("/.") ? called.substr(0, called.size() - 2) : called;
    EXPECT_TRUE(path.starts_with(folder)) << where << ": " << outcome.place;
  }
}

constexpr int errors[] = {EIO, ENOSPC, EROFS, EACCES, EINTR};

// Every call of the action, every errno: `check` sees the folder and what came of it.
int sweep(const Action& action,
          const std::function<void(const std::string& root, const Outcome&, int error,
                                   const std::string& where)>& check) {
  const TempFolder given;
  save(*posix_storage(given.path(), false), "step-1", 1);
  int tried = 0;
  const auto one = [&](int at, Fault fault, int error, const std::string& what) {
    const TempFolder folder;
    fs::copy(given.path(), folder.path(), fs::copy_options::recursive);
    const Outcome outcome = attempt(folder.path(), at, fault, error, action);
    ++tried;
    check(folder.path(), outcome, error, fmt::format("call {}, {}, {}", at, outcome.call, what));
  };
  const TempFolder folder;
  fs::copy(given.path(), folder.path(), fs::copy_options::recursive);
  const std::vector<std::string> calls = calls_of(folder.path(), action);
  for (int at = 0; at < static_cast<int>(calls.size()); ++at) {
    const std::string& call = calls[static_cast<std::size_t>(at)];
    for (const int error : errors) {
      if (!plausible(call, error)) continue;
      one(at, Fault::error, error, std::generic_category().message(error));
    }
    const bool counts = call.starts_with("write ") || call.starts_with("pread ");
    if (counts) one(at, Fault::short_count, EINTR, "short");
  }
  return tried;
}

TEST(SystemCalls, OfASaveMayFail) {
  Judge judge(both, {"step-1"});
  int failures = 0;
  const Action action = [](Storage& storage) -> std::vector<Damage> {
    save(storage, "step-2", 2);
    return {};
  };
  const int tried = sweep(action, [&](const std::string& root, const Outcome& outcome, int error,
                                      const std::string& where) {
    const auto storage = posix_storage(root, false);
    if (outcome.threw) expect_named(outcome, root, error, where);
    EXPECT_TRUE(error != EINTR || !outcome.threw) << where << ": " << outcome.detail;
    const std::set<std::string> promised =
        outcome.threw ? std::set<std::string>{"step-1"} : std::set<std::string>{"step-1", "step-2"};
    const Finding finding = judge.judge(*storage, promised);
    EXPECT_EQ(static_cast<int>(finding.verdict),
              static_cast<int>(outcome.threw ? Verdict::old_one : Verdict::new_one))
        << where << ": " << finding.why;
    failures += outcome.threw ? 1 : 0;
    save(*storage, "step-2", 2);  // nothing stands in the way of another attempt
  });
  EXPECT_GT(tried, 80);
  EXPECT_GT(failures, 60);
}

TEST(SystemCalls, OfASaveOfAnIdThatIsThereMayFail) {
  Judge judge(both, {"step-1"});
  const Action action = [](Storage& storage) -> std::vector<Damage> {
    save(storage, "step-1", 1);
    return {};
  };
  const int tried = sweep(action, [&](const std::string& root, const Outcome& outcome, int error,
                                      const std::string& where) {
    EXPECT_TRUE(error != EINTR || !outcome.threw) << where << ": " << outcome.detail;
    const Finding finding = judge.judge(*posix_storage(root, false), {"step-1"});
    EXPECT_EQ(static_cast<int>(finding.verdict), static_cast<int>(Verdict::old_one)) << where;
  });
  EXPECT_GT(tried, 50);
}

TEST(SystemCalls, OfAVerificationMayFail) {
  const Action action = [](Storage& storage) { return verify_checkpoint(storage, "step-1"); };
  int found = 0;
  sweep(action, [&](const std::string&, const Outcome& outcome, int error,
                    const std::string& where) {
    const std::string reason = std::generic_category().message(error);
    const bool closed = outcome.call.starts_with("close");  // of a file that was read: no matter
    const bool refused = outcome.threw || !outcome.damages.empty();
    EXPECT_EQ(refused, error != EINTR && !closed) << where << ": " << outcome.detail;
    for (const Damage& damage : outcome.damages) {
      EXPECT_NE(damage.found.find(reason), std::string::npos) << where << ": " << damage.found;
      EXPECT_NE(damage.where.find("step-1."), std::string::npos) << where << ": " << damage.where;
    }
    found += refused ? 1 : 0;
  });
  EXPECT_GT(found, 30);
}

TEST(SystemCalls, OfALoadMayFail) {
  testing::State loaded = small_state(9);
  const Action action = [&](Storage& storage) -> std::vector<Damage> {
    loaded.clear();
    load_state(storage, read_manifest(storage, list_checkpoints(storage).at(0)), loaded.all());
    return {};
  };
  int failures = 0;
  sweep(action,
        [&](const std::string& root, const Outcome& outcome, int error, const std::string& where) {
          if (outcome.threw) expect_named(outcome, root, error, where);
          EXPECT_TRUE(error != EINTR || !outcome.threw) << where << ": " << outcome.detail;
          EXPECT_TRUE(outcome.threw || loaded == small_state(1)) << where;
          failures += outcome.threw ? 1 : 0;
        });
  EXPECT_GT(failures, 20);
}

// What is saved under a root whose name is lost is lost.
TEST(SystemCalls, TheNameOfANewRootIsSynced) {
  const TempFolder folder;
  const std::string sync = "fsync " + folder.path();
  for (const bool made : {true, false}) {
    arm(folder.path(), -1, Fault::error, 0);
    posix_storage(folder.file("root"), true);
    const std::vector<std::string> calls = disarm();
    EXPECT_NE(std::find(calls.begin(), calls.end(), sync), calls.end()) << made;
  }
  const auto failing = [&](const std::string& root) {
    arm(folder.path(), 1, Fault::error, EIO);  // after the open of the parent
    posix_storage(root, true);
  };
  failing(folder.file("root"));  // it was there: not for us to say
  EXPECT_EQ(disarm().at(1), sync);
  EXPECT_EQ(testing::error_of([&] { failing(folder.file("other")); }).kind(), ErrorKind::io);
  EXPECT_EQ(disarm().at(1), sync);
}

}  // namespace
}  // namespace shardproof::damage

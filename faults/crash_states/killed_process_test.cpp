// ctest: fault timeout=300
// Real processes on a real file system: a child that saves gets SIGKILL before each of its file
// operations in turn, and within each write; what it leaves is the old checkpoint or the new one,
// and the next process can go on. (A killed process loses no unsynced data: power loss is the
// model's part.)
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/temp_folder.h"
#include "faults/crash_states/crash_world.h"
#include "faults/crash_states/judge.h"

namespace shardproof::crash {
namespace {

namespace fs = std::filesystem;
using Expected = std::map<std::string, std::set<std::uint64_t>>;

const Expected both = {{"step-1", {1}}, {"step-2", {2}}};

void save(const std::shared_ptr<Storage>& storage, const std::string& id, std::uint64_t seed,
          int ranks) {
  ::shardproof::testing::State state = small_state(seed);
  ::shardproof::testing::write_small(*storage, ranks, id, state, facts_of(id));
}

std::shared_ptr<Storage> disk_at(const std::string& root) {
  return posix_storage(root, true);
}

enum class Child { killed, done, failed };

// A forked child saves; SIGKILL comes before its `at`-th operation, or, when `half`, right after
// one half of what that operation writes. Children are forked while no other thread is alive.
Child child_saves(const std::string& root, const std::string& id, std::uint64_t seed, int ranks,
                  int at, bool half) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto journal = std::make_shared<Journal>();
    std::atomic<int> count{0};
    journal->set_hook([&](const Operation& operation) {
      const int number = count++;
      const bool now = half && operation.kind == Operation::Kind::write && number == at;
      if (now) return Do::half;
      if (half ? number > at : number == at) ::raise(SIGKILL);
      return Do::it;
    });
    try {
      save(recorded(disk_at(root), journal), id, seed, ranks);
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) return Child::killed;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? Child::done : Child::failed;
}

// Kills at every operation of a save onto a copy of what `given` makes. Returns how many kills.
int kill_at_each(const std::function<void(const std::string& root)>& given,
                 const std::set<std::string>& old, int ranks, std::vector<bool> halves,
                 std::map<Verdict, int>& found) {
  const std::string id = old.empty() ? "step-1" : "step-2";
  const std::uint64_t seed = old.empty() ? 1 : 2;
  Judge judge(both, old);
  int kills = 0;
  for (const bool half : halves) {
    Child child = Child::killed;
    for (int at = 0; child == Child::killed; ++at) {
      const TempFolder folder;
      given(folder.path());
      child = child_saves(folder.path(), id, seed, ranks, at, half);
      EXPECT_NE(child, Child::failed) << "operation " << at;
      kills += child == Child::killed ? 1 : 0;
      std::set<std::string> promised = old;
      if (child == Child::done) promised.insert(id);
      const auto disk = disk_at(folder.path());
      const Finding finding = judge.judge(*disk, promised);
      EXPECT_NE(finding.verdict, Verdict::broken)
          << finding.why << ", killed at operation " << at << (half ? ", half of it done" : "");
      ++found[finding.verdict];
      // Leftovers stop nobody: the next process saves the same id.
      save(disk, id, seed, 1);
      promised.insert(id);
      EXPECT_EQ(judge.judge(*disk, promised).verdict, Verdict::new_one) << "operation " << at;
    }
  }
  return kills;
}

void nothing(const std::string&) {}

// A folder with the old checkpoint, to be copied.
class OldCheckpoint {
 public:
  OldCheckpoint() { save(disk_at(folder_.path()), "step-1", 1, 2); }
  void operator()(const std::string& root) const {
    fs::copy(folder_.path(), root, fs::copy_options::recursive);
  }

 private:
  TempFolder folder_;
};

TEST(KilledProcess, LeavesNothingOrTheFirstCheckpoint) {
  std::map<Verdict, int> found;
  EXPECT_GT(kill_at_each(nothing, {}, 1, {false, true}, found), 25);
  EXPECT_GT(found[Verdict::none_yet], 20);
  EXPECT_GT(found[Verdict::new_one], 2);
}

TEST(KilledProcess, LeavesTheOldOrTheNewCheckpoint) {
  const OldCheckpoint old;
  std::map<Verdict, int> found;
  for (const int ranks : {1, 2, 3}) {
    EXPECT_GT(kill_at_each(std::ref(old), {"step-1"}, ranks, {false}, found), 15) << ranks;
  }
  EXPECT_GT(found[Verdict::old_one], 40);
  EXPECT_GT(found[Verdict::new_one], 5);
  EXPECT_EQ(found[Verdict::none_yet], 0);
}

TEST(KilledProcess, MayBeKilledAgainWhileItRecovers) {
  const OldCheckpoint old;
  std::map<Verdict, int> found;
  for (const int first : {4, 13, 15}) {
    const auto killed_once = [&](const std::string& root) {
      old(root);
      EXPECT_EQ(child_saves(root, "step-2", 2, 1, first, false), Child::killed) << first;
    };
    kill_at_each(killed_once, {"step-1"}, 1, {false}, found);
  }
  EXPECT_EQ(found[Verdict::none_yet], 0);
}

}  // namespace
}  // namespace shardproof::crash

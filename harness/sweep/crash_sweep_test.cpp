// ctest: fault timeout=120
// Savers in the small are swept: a right one leaves OLD or NEW at every point, wrong ones do not.
#include "harness/sweep/crash_sweep.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/expect_error.h"
#include "harness/sweep/damage_sweep.h"
#include "harness/sweep/sweep_report.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

const std::string saver = SHARDPROOF_SMALL_SAVER;

SweepCommands commands(const TempFolder& folder, const std::string& how,
                       const std::string& load = "load") {
  return {folder.file("root"),
          {saver, how, "{root}", "{n}"},
          saver + " " + load + " {root}",
          std::chrono::seconds(20)};
}

CrashSweep sweep(const std::string& how, SweepChoice choice = {}) {
  const TempFolder folder;
  SweepSubject subject(commands(folder, how));
  const Baselines baselines = run_uncut(subject);
  return sweep_crashes(subject, baselines, choice);
}

// "open write fsync", of a save.
std::string calls(const CrashSweep& sweep, int save) {
  std::string text;
  for (const SweepPoint& point : sweep.points) {
    if (point.save == save && !point.cut.half) {
      text += (text.empty() ? "" : " ") + std::string(point.operation.name);
    }
  }
  return text;
}

TEST(CrashSweep, FindsOldOrNewAtEveryPointOfARightSaver) {
  const CrashSweep found = sweep("rename", {.torn = true});
  const std::string parts = "mkdir open write fsync open write fsync unlink symlink rename";
  EXPECT_EQ(calls(found, 1), parts);
  EXPECT_EQ(calls(found, 2), parts);
  EXPECT_TRUE(found.good()) << summary(found);
  EXPECT_EQ(found.count(2, Found::old_state), found.points.size() / 2);
  EXPECT_EQ(found.points.size(), 2 * (10u + 2u)) << "both writes are torn, too";
}

TEST(CrashSweep, NamesTheOperationAfterWhichNothingCanBeLoaded) {
  const CrashSweep found = sweep("in-place");
  EXPECT_EQ(calls(found, 2), "mkdir open write open write");
  EXPECT_FALSE(found.good());
  std::string states;
  for (const SweepPoint& point : found.points) {
    if (point.save == 2) states += std::string(name(point.found)) + " ";
  }
  // Before the mkdir and the first open; a file of no bytes; the parts are of different saves; ...
  EXPECT_EQ(states, "OLD OLD NONE MIXED NONE ");
  const SweepPoint& mixed = found.points.at(5 + 3);
  EXPECT_STREQ(mixed.operation.path, "current/part2");
  EXPECT_NE(line_of(mixed).find("printed: 2 1"), std::string::npos) << line_of(mixed);
  EXPECT_NE(summary(found).find("save 2 (overwriting): 5 file operations, 2 OLD, 1 MIXED, 2 NONE"),
            std::string::npos)
      << summary(found);
}

TEST(CrashSweep, TearsWrites) {
  const CrashSweep found = sweep("in-place", {.first = false, .torn = true});
  std::size_t torn = 0;
  for (const SweepPoint& point : found.points) {
    if (!point.cut.half) continue;
    ++torn;
    EXPECT_STREQ(point.operation.name, "write");
    EXPECT_EQ(point.found, Found::none) << line_of(point);
    EXPECT_NE(point.detail.find("a part is damaged"), std::string::npos) << point.detail;
  }
  EXPECT_EQ(torn, 2u);
}

TEST(CrashSweep, SeesIntoStreams) {
  EXPECT_EQ(calls(sweep("streams", {.first = false}), 2),
            "mkdir open write fsync open write fsync");
  EXPECT_EQ(calls(sweep("cpp-streams", {.first = false}), 2), "mkdir open write open write");
}

TEST(CrashSweep, CountsOverAllProcessesAndLeavesNoOperationAfterTheCut) {
  const TempFolder folder;
  SweepSubject subject(commands(folder, "two"));
  const SaveRun uncut = subject.save(1);
  ASSERT_EQ(uncut.operations.size(), 5u);
  std::set<int> processes;
  for (const SweepOperation& operation : uncut.operations) processes.insert(operation.pid);
  EXPECT_EQ(processes.size(), 3u);
  for (std::uint64_t at = 2; at <= 5; ++at) {
    subject.clear();
    const SaveRun cut = subject.save(1, {at});
    EXPECT_TRUE(cut.fired) << at;
    EXPECT_TRUE(cut.command.stopped) << "the parent, which hangs, is ended, too";
    std::size_t made = 0;
    for (const auto& entry : fs::recursive_directory_iterator(subject.root())) {
      made += entry.is_regular_file() ? 1 : 0;
    }
    EXPECT_LE(made, at - 2) << "before operation " << at;
  }
}

TEST(CrashSweep, EndsALoaderThatHangs) {
  const TempFolder folder;
  SweepCommands hanging = commands(folder, "in-place", "hang-load");
  hanging.deadline = std::chrono::seconds(3);
  SweepSubject subject(hanging);
  const Baselines baselines = run_uncut(subject);
  const CrashSweep found = sweep_crashes(subject, baselines, {.second = false});
  EXPECT_EQ(found.count(1, Found::hung), 2u) << summary(found);
  EXPECT_FALSE(found.good());
}

TEST(CrashSweep, RefusesWhatItCannotJudge) {
  const TempFolder folder;
  folder.write("file", "mine");
  SweepCommands mine = commands(folder, "rename");
  mine.root = folder.path();
  expect_error(ErrorKind::refused, {"is no empty folder"}, [&] { SweepSubject subject(mine); });
  EXPECT_EQ(folder.read("file"), "mine");

  const auto uncut = [&](const SweepCommands& given) {
    SweepSubject subject(given);
    run_uncut(subject);
  };
  SweepCommands given = commands(folder, "rename");
  given.saver.pop_back();
  expect_error(ErrorKind::bad_input, {"has no {n}"}, [&] { uncut(given); });
  given.saver = {"sh", "-c", "echo no disk; exit {n}"};
  expect_error(ErrorKind::bad_input, {"save 1", "exit code 1", "no disk"}, [&] { uncut(given); });
  given.saver = {"true", "{n}"};
  expect_error(ErrorKind::bad_input, {"no file operation"}, [&] { uncut(given); });
  given = commands(folder, "rename");
  given.loader = "echo whole";
  expect_error(ErrorKind::bad_input, {"prints the same"}, [&] { uncut(given); });
  given.loader = "echo what >&2; false";
  expect_error(ErrorKind::bad_input, {"load after save 1", "exit code 1: what"},
               [&] { uncut(given); });
  EXPECT_FALSE(fs::exists(given.root)) << "a root that was made for a sweep goes with it";
}

DamageSweep damage(const std::string& load, std::size_t flips) {
  const TempFolder folder;
  SweepSubject subject(commands(folder, "in-place", load));
  const Baselines baselines = run_uncut(subject);
  const DamageSweep found = sweep_damage(subject, baselines.new_one, {.flips = flips});
  EXPECT_EQ(subject.load(), baselines.new_one) << "what was damaged is mended";
  return found;
}

TEST(DamageSweep, FindsTheLoaderThatLooksAtNothing) {
  const DamageSweep strict = damage("load", 1000);
  EXPECT_TRUE(strict.good()) << summary(strict);
  EXPECT_TRUE(strict.whole);
  EXPECT_EQ(strict.points.size(), 2 * (31u + 3u + 1u));
  EXPECT_EQ(strict.count(Damaged::refused), strict.points.size());

  const DamageSweep loose = damage("loose-load", 5);
  EXPECT_FALSE(loose.good());
  EXPECT_FALSE(loose.whole);
  EXPECT_EQ(loose.points.front().what, "bit 0 of byte 0");
  EXPECT_EQ(loose.points.front().outcome, Damaged::silent) << line_of(loose.points.front());
  EXPECT_EQ(loose.points.at(4).what, "bit 4 of byte 30") << "the last byte";
  EXPECT_EQ(loose.points.at(4).outcome, Damaged::same);
  EXPECT_GE(loose.count(Damaged::refused), 2u) << "missing files";
}

// Our own checkpoints, written by three ranks on threads.
TEST(CrashSweep, FindsOldOrNewAtEveryPointOfOurOwnSaver) {
  const TempFolder folder;
  const std::string own = SHARDPROOF_OWN_SAVER;
  SweepSubject subject(SweepCommands{folder.file("root"),
                                     {own, "save", "{root}", "{n}"},
                                     own + " load {root}",
                                     std::chrono::seconds(30)});
  const Baselines baselines = run_uncut(subject);
  EXPECT_EQ(baselines.old_one.printed.substr(0, 7), "step-1 ");
  EXPECT_EQ(baselines.new_one.printed.substr(0, 7), "step-2 ");
  const CrashSweep found = sweep_crashes(subject, baselines, {.torn = true});
  for (const SweepPoint& point : found.points) EXPECT_TRUE(point.good) << line_of(point);
  EXPECT_GT(found.count(1, Found::none), 20u);
  EXPECT_GT(found.count(2, Found::old_state), 20u);
  EXPECT_GT(found.count(2, Found::new_state), 1u) << "the sync of the folder, after the link";
  EXPECT_EQ(found.count(2, Found::none) + found.count(2, Found::mixed), 0u);
}

}  // namespace
}  // namespace shardproof

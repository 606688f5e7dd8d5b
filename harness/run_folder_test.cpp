// ctest: unit
#include "harness/run_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

TEST(RunFolder, GoesWithItsObject) {
  const TempFolder parent;
  std::string path;
  {
    const RunFolder folder(parent.path());
    path = folder.path();
    std::ofstream(folder.file("request.json")) << "{}";
    EXPECT_TRUE(fs::exists(path + "/request.json"));
    EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_all);
  }
  EXPECT_FALSE(fs::exists(path));
}

// The path of a folder whose owner, another process, was killed.
std::string left_by_a_killed_process(const std::string& parent) {
  int fds[2];
  if (pipe(fds) != 0) return "";
  const pid_t owner = fork();
  if (owner == 0) {
    const RunFolder folder(parent);
    std::ofstream(folder.file("request.json")) << "{}";
    if (write(fds[1], folder.path().c_str(), folder.path().size() + 1) < 0) _exit(1);
    for (;;) pause();
  }
  char path[4096] = {};
  if (read(fds[0], path, sizeof path - 1) <= 0) path[0] = 0;
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  close(fds[0]);
  close(fds[1]);
  return path;
}

TEST(RunFolder, WhatAKilledRunLeftGoesWithTheNext) {
  const TempFolder parent;
  const RunFolder alive(parent.path());
  const std::string left = left_by_a_killed_process(parent.path());
  ASSERT_TRUE(fs::exists(left + "/request.json")) << left;
  const RunFolder next(parent.path());
  EXPECT_FALSE(fs::exists(left));
  EXPECT_TRUE(fs::exists(alive.path())) << "its owner lives";
}

TEST(RunFolder, WhatIsNotAFolderOfARunIsLeftAlone) {
  const TempFolder parent, elsewhere;
  const std::string link = parent.file("shardproof-run-Link00");
  const std::string file = parent.file("shardproof-run-File00");
  const std::string other = parent.file("shardproof-run-of-mine");
  fs::create_symlink(elsewhere.path(), link);
  std::ofstream(file) << "x";
  fs::create_directory(other);
  const RunFolder next(parent.path());
  EXPECT_TRUE(fs::exists(elsewhere.path()));
  for (const std::string& path : {link, file, other}) EXPECT_TRUE(fs::exists(path)) << path;
}

TEST(RunFolder, AFolderThatCannotBeMadeIsNamed) {
  expect_error(ErrorKind::environment, {"/proc/shardproof-run-"}, [] { RunFolder("/proc"); });
}

}  // namespace
}  // namespace shardproof

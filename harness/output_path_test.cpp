// ctest: unit
#include "harness/output_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

TEST(OutputPath, FoldersAreMadeWithTheirParents) {
  const TempFolder folder;
  make_folder(folder.file("a/b/"));
  make_folder(folder.file("a/b"));
  EXPECT_TRUE(fs::is_directory(folder.file("a/b")));
  make_fresh_folder(folder.file("c/d/"));
  EXPECT_TRUE(fs::is_directory(folder.file("c/d")));
}

TEST(OutputPath, WhatExistsIsNoFreshFolder) {
  const TempFolder folder;
  folder.write("file", "mine");
  fs::create_symlink("nowhere", folder.file("link"));
  for (const char* name : {"", "file", "link", "link/"}) {
    expect_error(ErrorKind::conflict, {"exists already"},
                 [&] { make_fresh_folder(folder.file(name)); });
  }
  EXPECT_EQ(folder.read("file"), "mine");
}

TEST(OutputPath, AMistakeOfTheUserIsNotOneOfTheMachine) {
  const TempFolder folder;
  folder.write("file", "mine");
  const auto under_file = folder.file("file/x"), endless = folder.file(std::string(5000, 'x'));
  for (const auto& make : {make_folder, make_fresh_folder, check_new_file}) {
    expect_error(ErrorKind::bad_input, {under_file}, [&] { make(under_file); });
    expect_error(ErrorKind::bad_input, {endless}, [&] { make(endless); });
  }
  expect_error(ErrorKind::bad_input, {"file"}, [&] { make_folder(folder.file("file")); });
  // A file system that lets nobody make a folder.
  expect_error(ErrorKind::environment, {"/proc/shardproof"},
               [] { make_folder("/proc/shardproof"); });
  expect_error(ErrorKind::environment, {"/proc/shardproof"},
               [] { make_fresh_folder("/proc/shardproof"); });
}

TEST(OutputPath, NumberedFoldersGoAroundWhateverIsThere) {
  const TempFolder folder;
  folder.write("report-1", "a file");
  fs::create_symlink("nowhere", folder.file("report-2"));
  EXPECT_EQ(make_numbered_folder(folder.file("report")), folder.file("report-3"));
  EXPECT_EQ(make_numbered_folder(folder.file("report")), folder.file("report-4"));
  expect_error(ErrorKind::environment, {"/proc/report-1"},
               [] { make_numbered_folder("/proc/report"); });
}

TEST(OutputPath, ANewFileIsNewOrNoFile) {
  const TempFolder folder;
  folder.write("file", "mine");
  fs::create_symlink("nowhere", folder.file("link"));
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  check_new_file(folder.file("new"));
  check_new_file(folder.file("pipe"));
  check_new_file("/dev/full");
  check_new_file("new-in-this-folder");
  for (const char* name : {"file", "link"}) {
    expect_error(ErrorKind::conflict, {name, "exists already"},
                 [&] { check_new_file(folder.file(name)); });
  }
  expect_error(ErrorKind::bad_input, {"expected a file"}, [&] { check_new_file(folder.path()); });
  expect_error(ErrorKind::bad_input, {"there is no folder " + folder.file("no")},
               [&] { check_new_file(folder.file("no/file")); });
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "trace/append_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <sstream>
#include <thread>
#include <vector>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

TEST(AppendFile, CreatesFolderAndFileAndAppendsLines) {
  TempFolder folder;
  const std::string path = folder.file("a/b/t.jsonl");
  {
    AppendFile file(path);
    file.append("one");
    file.append("");
  }
  AppendFile(path).append("two");
  EXPECT_EQ(folder.read("a/b/t.jsonl"), "one\n\ntwo\n");
}

TEST(AppendFile, EveryLineIsInTheFileWhenAppendReturns) {
  TempFolder folder;
  AppendFile file(folder.file("t"));
  file.append("x");
  EXPECT_EQ(folder.read("t"), "x\n");
}

RC_GTEST_PROP(AppendFile, CutsOnlyATornLastLine, ()) {
  TempFolder folder;
  std::string whole;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    whole += std::string(*rc::gen::inRange(0, 9000), 'w') + '\n';
  }
  const std::string torn(*rc::gen::element(0, 1, 4095, 4096, 4097, 9000), 't');
  folder.write("t", whole + torn);
  AppendFile(folder.file("t")).append("next");
  RC_ASSERT(folder.read("t") == whole + "next\n");
}

TEST(AppendFile, LinesOfConcurrentWritersDoNotMix) {
  TempFolder folder;
  constexpr int writers = 4;
  constexpr int lines = 50;
  constexpr int length = 100000;  // far more than a pipe or a page takes at once
  std::vector<std::thread> threads;
  AppendFile create(folder.file("t"));
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&folder, writer] {
      AppendFile file(folder.file("t"));
      for (int i = 0; i < lines; ++i)
        file.append(std::string(length, static_cast<char>('a' + writer)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::istringstream in(folder.read("t"));
  std::vector<int> counts(writers, 0);
  for (std::string line; std::getline(in, line);) {
    ASSERT_EQ(line, std::string(length, line[0]));
    ++counts[line[0] - 'a'];
  }
  EXPECT_EQ(counts, std::vector<int>(writers, lines));
}

TEST(AppendFile, FailuresNameTheFile) {
  TempFolder folder;
  folder.write("file", "x\n");
  const Error below = error_of([&] { AppendFile file(folder.file("file/t")); });
  EXPECT_EQ(below.kind(), ErrorKind::io);
  EXPECT_NE(below.place().find(folder.file("file")), std::string::npos);
  const Error folder_error = error_of([&] { AppendFile file(folder.path()); });
  EXPECT_EQ(folder_error.kind(), ErrorKind::io);
  EXPECT_EQ(folder_error.place(), folder.path());
  const Error full = error_of([] { AppendFile("/dev/full").append("x"); });
  EXPECT_EQ(full.kind(), ErrorKind::io);
  EXPECT_EQ(full.place(), "/dev/full");
}

}  // namespace
}  // namespace shardproof

// ctest: unit
#include "trace/mapped_file.h"

#include <gtest/gtest.h>

#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

TEST(MappedFile, HoldsTheWholeFile) {
  TempFolder folder;
  const std::string text = std::string(10000, 'x') + '\0' + "end";
  folder.write("f", text);
  const MappedFile file(folder.file("f"));
  EXPECT_EQ(file.text(), text);
  EXPECT_EQ(file.bytes().size(), text.size());
}

TEST(MappedFile, AnEmptyFileIsEmpty) {
  TempFolder folder;
  folder.write("f", "");
  EXPECT_TRUE(MappedFile(folder.file("f")).text().empty());
}

TEST(MappedFile, PagesThatWereReleasedAreReadAgain) {
  TempFolder folder;
  const std::string text = std::string(100000, 'a') + std::string(100000, 'b');
  folder.write("f", text);
  const MappedFile file(folder.file("f"));
  EXPECT_EQ(file.text(), text);
  release_pages(file.bytes().subspan(5000, 150000));
  release_pages({});
  EXPECT_EQ(file.text(), text);
}

TEST(MappedFile, FailuresNameFileAndOperation) {
  TempFolder folder;
  const Error missing = error_of([&] { MappedFile file(folder.file("none")); });
  EXPECT_EQ(missing.kind(), ErrorKind::io);
  EXPECT_EQ(missing.place(), folder.file("none"));
  EXPECT_EQ(missing.detail().rfind("open: ", 0), 0u);
  EXPECT_EQ(error_of([&] { MappedFile file(folder.path()); }).kind(), ErrorKind::io);
}

}  // namespace
}  // namespace shardproof

// ctest: unit timeout=60
// A file of blocks under calls that do less than asked, fail, or whose file is cut from outside.
#include "parallel/offload_file.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/expect_error.h"
#include "base/temp_folder.h"

namespace shardproof {
namespace {

std::vector<float> counted(std::int64_t elements, float first) {
  std::vector<float> out(static_cast<std::size_t>(elements));
  std::iota(out.begin(), out.end(), first);
  return out;
}

// Passes on what it is told to: a few bytes at a time, or an error.
struct Script {
  std::size_t most = SIZE_MAX;  // bytes of a transfer
  int interrupted_in = 0;       // every n-th call ends with EINTR
  int calls = 0;
  int create_error = 0, read_error = 0, write_error = 0;
  int writes_before_error = 0;
  int fd = -1;
};

class Scripted : public FileCalls {
 public:
  explicit Scripted(Script& script) : script_(script) {}
  int create(char* path) override {
    if (script_.create_error != 0) return fail(script_.create_error);
    return script_.fd = FileCalls::create(path);
  }
  ssize_t read(int fd, void* to, std::size_t bytes, off_t at) override {
    if (interrupted()) return fail(EINTR);
    if (script_.read_error != 0) return fail(script_.read_error);
    return FileCalls::read(fd, to, std::min(bytes, script_.most), at);
  }
  ssize_t write(int fd, const void* from, std::size_t bytes, off_t at) override {
    if (interrupted()) return fail(EINTR);
    if (script_.write_error != 0 && script_.writes_before_error-- <= 0) {
      return fail(script_.write_error);
    }
    return FileCalls::write(fd, from, std::min(bytes, script_.most), at);
  }

 private:
  bool interrupted() {
    return script_.interrupted_in > 0 && ++script_.calls % script_.interrupted_in == 0;
  }
  static int fail(int error) {
    errno = error;
    return -1;
  }
  Script& script_;
};

class OffloadFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<OffloadFile> open() {
    return std::make_unique<OffloadFile>(folder_.path(), 3, std::make_unique<Scripted>(script_));
  }
  std::vector<float> read(OffloadFile& file, std::int64_t block, std::int64_t elements) {
    std::vector<float> out(static_cast<std::size_t>(elements), -1);
    file.read(block, out);
    return out;
  }
  // An Error of rank 3 whose text holds the file's name and `words`.
  void expect_named(ErrorKind kind, const std::string& words, const std::function<void()>& body) {
    try {
      body();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_EQ(error.world_rank(), 3);
      EXPECT_NE(error.place().find(folder_.path() + "/shardproof-offload.rank_00003."),
                std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  }

  TempFolder folder_;
  Script script_;
};

TEST_F(OffloadFileTest, HoldsWhatWasWrittenAndHasNoName) {
  const auto file = open();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  const std::int64_t first = file->reserve(2500), second = file->reserve(10);
  EXPECT_EQ(second, first + 3) << "a run begins with a block of its own";
  EXPECT_EQ(read(*file, first, 2500), std::vector<float>(2500));
  const auto values = counted(2500, 1), others = counted(10, -20);
  file->write(first, values);
  file->write(second, others);
  EXPECT_EQ(read(*file, first, 2500), values);
  EXPECT_EQ(read(*file, second, 10), others);
  const auto middle = counted(1024, 7000);
  file->write(first + 1, middle);
  EXPECT_EQ(read(*file, first + 1, 1024), middle);
  EXPECT_EQ(read(*file, first, 1024), std::vector(values.begin(), values.begin() + 1024));
}

TEST_F(OffloadFileTest, ShortAndInterruptedTransfersGoOn) {
  EXPECT_TRUE(rc::check("any sizes of transfer", [this] {
    script_ = {};
    script_.most = *rc::gen::inRange<std::size_t>(1, 9000);
    script_.interrupted_in = *rc::gen::inRange(2, 5);
    const auto file = open();
    const std::int64_t elements = *rc::gen::inRange(1, 3000);
    const std::int64_t block = file->reserve(elements);
    const auto values = counted(elements, 5);
    file->write(block, values);
    RC_ASSERT(read(*file, block, elements) == values);
  }));
}

TEST_F(OffloadFileTest, NamesTheFileTheOperationAndTheRank) {
  const auto file = open();
  const std::int64_t block = file->reserve(2000);
  script_.read_error = EIO;
  expect_named(ErrorKind::io, "read", [&] { read(*file, block, 2000); });
  expect_named(ErrorKind::io, "Input/output error", [&] { read(*file, block, 2000); });
  script_.write_error = ENOSPC;
  expect_named(ErrorKind::io, "No space left on device",
               [&] { file->write(block, counted(2000, 0)); });
}

TEST_F(OffloadFileTest, AFullDiskIsFoundWhenARunIsReserved) {
  script_.most = 4096;
  script_.write_error = ENOSPC;
  script_.writes_before_error = 1;
  const auto file = open();
  expect_named(ErrorKind::io, "No space left on device", [&] { file->reserve(2000); });
}

TEST_F(OffloadFileTest, AFolderThatCannotBeWrittenIntoIsNamed) {
  script_.create_error = EACCES;
  expect_named(ErrorKind::io, "Permission denied; expected a folder that can be written into",
               [&] { open(); });
  script_.create_error = ENOENT;
  expect_named(ErrorKind::bad_input, "No such file or directory", [&] { open(); });
}

TEST_F(OffloadFileTest, AFileThatWasCutIsFoundByItsSize) {
  for (const bool grown : {false, true}) {
    const auto file = open();
    const std::int64_t block = file->reserve(3000);
    file->write(block, counted(3000, 1));
    ASSERT_EQ(::ftruncate(script_.fd, 4096), 0);
    if (!grown) {
      expect_named(ErrorKind::corrupt, "the file has 4096 bytes; expected 12000",
                   [&] { read(*file, block, 1024); });
      expect_named(ErrorKind::corrupt, "the file has 4096 bytes; expected 12000",
                   [&] { file->write(block + 2, counted(952, 1)); });
    } else {  // with zeros
      ASSERT_EQ(::ftruncate(script_.fd, 12000), 0);
      EXPECT_EQ(read(*file, block, 1024), counted(1024, 1)) << "the part that was left";
      expect_named(ErrorKind::corrupt, "the 4096 bytes at byte 4096 are not those",
                   [&] { read(*file, block, 3000); });
    }
  }
}

TEST_F(OffloadFileTest, OneFlippedBitOrTwoSwappedWordsAreFound) {
  const auto file = open();
  const std::int64_t block = file->reserve(1500);
  file->write(block, counted(1500, 1));
  std::vector<float> bytes(1500);
  const auto overwrite = [&] { ASSERT_EQ(::pwrite(script_.fd, bytes.data(), 6000, 0), 6000); };
  bytes = counted(1500, 1);
  reinterpret_cast<unsigned char*>(bytes.data())[5999] ^= 0x10;
  overwrite();
  expect_named(ErrorKind::corrupt, "the 1904 bytes at byte 4096 are not those",
               [&] { read(*file, block, 1500); });
  bytes = counted(1500, 1);
  std::swap(bytes[3], bytes[700]);
  overwrite();
  expect_named(ErrorKind::corrupt, "the 4096 bytes at byte 0 are not those",
               [&] { read(*file, block, 1500); });
}

}  // namespace
}  // namespace shardproof

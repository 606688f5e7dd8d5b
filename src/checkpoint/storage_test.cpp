// ctest: unit
// storage: one contract for files in a directory and files in memory; containment and real failures
// of the file system; the forwarding base.
#include "checkpoint/storage.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "base/temp_folder.h"
#include "checkpoint/checkpoint_testing.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;
using testing::contains;
using testing::error_of;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void put(Storage& storage, const std::string& path, const std::string& text) {
  const auto file = storage.create(path);
  file->write(bytes_of(text));
  file->sync();
  file->close();
}

enum class Kind { memory, posix, forwarding };

class StorageContract : public ::testing::TestWithParam<Kind> {
 protected:
  StorageContract() {
    if (GetParam() == Kind::memory) storage_ = memory_storage();
    if (GetParam() == Kind::posix) storage_ = posix_storage(directory_.path(), false);
    if (GetParam() == Kind::forwarding) {
      storage_ = std::make_unique<ForwardingStorage>(
          std::shared_ptr<Storage>(posix_storage(directory_.path(), false)));
    }
  }
  Storage& storage() { return *storage_; }

  void expect_error(ErrorKind kind, const std::string& part, const std::function<void()>& body) {
    const Error error = error_of(body);
    EXPECT_EQ(name(error.kind()), name(kind)) << error.what();
    EXPECT_TRUE(contains(error.place(), part)) << error.what() << "\nexpected " << part;
  }

 private:
  TempFolder directory_;
  std::unique_ptr<Storage> storage_;
};

TEST_P(StorageContract, WritesAppendAndReadBackAtAnyOffset) {
  const auto file = storage().create("f");
  file->write(bytes_of("hello "));
  file->write(bytes_of(""));
  file->write(bytes_of("world"));
  file->sync();
  file->close();
  file->close();  // once more is fine
  EXPECT_EQ(storage().size("f"), 11u);
  EXPECT_EQ(read_text(storage(), "f", 11), "hello world");
  std::string part(5, ' ');
  storage().read("f", 6, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "world");
  storage().read("f", 11, {});  // nothing, at the end
}

// More than is written back at once, in parts that do not divide it.
TEST_P(StorageContract, ALongFileReadsBack) {
  std::vector<std::byte> bytes(20 << 20);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i >> 8 ^ i);
  const auto file = storage().create("f");
  constexpr std::size_t part = 3'000'000;
  for (std::size_t at = 0; at < bytes.size(); at += part) {
    file->write(std::span(bytes).subspan(at, std::min(part, bytes.size() - at)));
  }
  file->close();
  EXPECT_TRUE(testing::read_file(storage(), "f") == bytes);
}

TEST_P(StorageContract, AnEmptyFileIsAFile) {
  put(storage(), "empty", "");
  EXPECT_TRUE(storage().exists("empty"));
  EXPECT_EQ(storage().size("empty"), 0u);
  EXPECT_EQ(read_text(storage(), "empty", 0), "");
}

TEST_P(StorageContract, CreateAndLinkNeverOverwrite) {
  put(storage(), "f", "one");
  expect_error(ErrorKind::conflict, "create ", [&] { storage().create("f"); });
  put(storage(), "g", "two");
  expect_error(ErrorKind::conflict, "link ", [&] { storage().link("f", "g"); });
  EXPECT_EQ(read_text(storage(), "f", 9), "one");
  EXPECT_EQ(read_text(storage(), "g", 9), "two");
  storage().make_directory("d");
  expect_error(ErrorKind::conflict, "create ", [&] { storage().create("d"); });
}

TEST_P(StorageContract, ALinkIsTheSameFileAndOutlivesItsFirstName) {
  put(storage(), "draft", "text");
  storage().link("draft", "final");
  storage().remove("draft");
  EXPECT_FALSE(storage().exists("draft"));
  EXPECT_EQ(read_text(storage(), "final", 9), "text");
  expect_error(ErrorKind::io, "link ", [&] { storage().link("draft", "other"); });
  expect_error(ErrorKind::io, "link ", [&] { storage().link("final", "no/where"); });
}

TEST_P(StorageContract, DirectoriesAreMadeListedAndRemoved) {
  storage().make_directory("d");
  storage().make_directory("d");  // existing is fine
  put(storage(), "d/b", "1");
  put(storage(), "d/a", "2");
  storage().make_directory("d/c");
  EXPECT_EQ(storage().list("d"), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(storage().list(""), std::vector<std::string>{"d"});
  storage().sync_directory("d");
  storage().sync_directory("");
  EXPECT_TRUE(storage().exists("d"));
  EXPECT_TRUE(storage().exists(""));
  expect_error(ErrorKind::io, "remove directory ", [&] { storage().remove_directory("d"); });
  storage().remove("d/a");
  storage().remove("d/b");
  storage().remove_directory("d/c");
  storage().remove_directory("d");
  EXPECT_FALSE(storage().exists("d"));
}

TEST_P(StorageContract, RemovingWhatIsMissingIsFine) {
  storage().remove("f");
  storage().remove("d/f");
  storage().remove_directory("d");
  storage().remove_directory("d/e");
  EXPECT_FALSE(storage().exists("d/f"));
}

TEST_P(StorageContract, MissingThingsAreNamed) {
  put(storage(), "f", "x");
  std::byte one{};
  expect_error(ErrorKind::io, "no/file", [&] { storage().create("no/file"); });
  expect_error(ErrorKind::io, "no/file", [&] { storage().make_directory("no/file"); });
  expect_error(ErrorKind::io, "none", [&] { storage().size("none"); });
  expect_error(ErrorKind::io, "none", [&] { storage().read("none", 0, {&one, 1}); });
  expect_error(ErrorKind::io, "none", [&] { storage().list("none"); });
  expect_error(ErrorKind::io, "none", [&] { storage().sync_directory("none"); });
  expect_error(ErrorKind::io, "f", [&] { storage().list("f"); });
  expect_error(ErrorKind::io, "f", [&] { storage().make_directory("f"); });
  expect_error(ErrorKind::io, "f", [&] { storage().remove_directory("f"); });
  expect_error(ErrorKind::io, "f/g", [&] { storage().create("f/g"); });
  EXPECT_FALSE(storage().exists("f/g"));
  storage().make_directory("d");
  expect_error(ErrorKind::io, "d", [&] { storage().remove("d"); });
  expect_error(ErrorKind::io, "d", [&] { storage().size("d"); });
  expect_error(ErrorKind::io, "d", [&] { storage().read("d", 0, {&one, 1}); });
}

TEST_P(StorageContract, AShortFileIsDamage) {
  put(storage(), "f", "abc");
  std::vector<std::byte> four(4);
  expect_error(ErrorKind::corrupt, "f", [&] { storage().read("f", 0, four); });
  expect_error(ErrorKind::corrupt, "f", [&] { storage().read("f", 3, {four.data(), 1}); });
  expect_error(ErrorKind::corrupt, "f", [&] { storage().read("f", 1u << 30, {four.data(), 1}); });
  expect_error(ErrorKind::corrupt, "f", [&] { read_text(storage(), "f", 2); });
}

TEST_P(StorageContract, PathsThatLeaveTheRootAreRefusedByEveryOperation) {
  std::byte one{};
  const std::vector<std::string> bad = {"/etc/passwd",
                                        "../x",
                                        "a/../x",
                                        "..",
                                        ".",
                                        "a//b",
                                        "a/",
                                        "a/./b",
                                        "",
                                        std::string("a\0b", 3),
                                        "a\nb",
                                        std::string(1025, 'x')};
  put(storage(), "good", "x");
  for (const std::string& path : bad) {
    const auto refused = [&](const std::function<void()>& body) {
      EXPECT_EQ(name(error_of(body).kind()), name(ErrorKind::refused)) << path;
    };
    refused([&] { storage().create(path); });
    refused([&] { storage().make_directory(path); });
    refused([&] { storage().link(path, "new"); });
    refused([&] { storage().link("good", path); });
    refused([&] { storage().remove(path); });
    refused([&] { storage().remove_directory(path); });
    refused([&] { storage().size(path); });
    refused([&] { storage().read(path, 0, {&one, 1}); });
    refused([&] { check_storage_path(path); });
    if (path.empty()) continue;  // the root
    refused([&] { storage().exists(path); });
    refused([&] { storage().list(path); });
    refused([&] { storage().sync_directory(path); });
  }
  EXPECT_EQ(storage().list(""), std::vector<std::string>{"good"});
}

TEST_P(StorageContract, OneOfManyWritersWinsALink) {
  constexpr int writers = 8;
  std::atomic<int> won{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < writers; ++i) {
    threads.emplace_back([&, i] {
      const std::string draft = "draft" + std::to_string(i);
      put(storage(), draft, std::to_string(i));
      try {
        storage().link(draft, "final");
        ++won;
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::conflict);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(won, 1);
}

INSTANTIATE_TEST_SUITE_P(All, StorageContract,
                         ::testing::Values(Kind::memory, Kind::posix, Kind::forwarding));

TEST(PosixStorage, RootIsMadeOnlyWhenAsked) {
  const TempFolder directory;
  const std::string root = directory.file("new");
  EXPECT_EQ(error_of([&] { posix_storage(root, false); }).kind(), ErrorKind::bad_input);
  EXPECT_FALSE(fs::exists(root));
  put(*posix_storage(root, true), "f", "x");
  EXPECT_EQ(read_text(*posix_storage(root, true), "f", 9), "x");
  EXPECT_EQ(error_of([&] { posix_storage(root + "/f", false); }).kind(), ErrorKind::bad_input);
  EXPECT_EQ(error_of([&] { posix_storage(root + "/a/b", true); }).kind(), ErrorKind::io);
}

TEST(PosixStorage, SymlinksBelowTheRootAreNotFollowed) {
  const TempFolder directory;
  const fs::path outside = directory.file("outside");
  const fs::path root = directory.file("root");
  fs::create_directories(outside);
  fs::create_directories(root);
  std::ofstream(outside / "secret") << "secret";
  fs::create_symlink(outside / "secret", root / "file");
  fs::create_directory_symlink(outside, root / "dir");
  const auto storage = posix_storage(root.string(), false);
  std::vector<std::byte> out(6);
  const auto refused = [](const std::function<void()>& body) {
    const Error error = error_of(body);
    EXPECT_EQ(name(error.kind()), name(ErrorKind::refused)) << error.what();
    EXPECT_TRUE(contains(error.what(), "symbolic link")) << error.what();
  };
  refused([&] { storage->read("file", 0, out); });
  refused([&] { storage->size("file"); });
  refused([&] { storage->read("dir/secret", 0, out); });
  refused([&] { storage->create("dir/new"); });
  refused([&] { storage->make_directory("dir"); });
  refused([&] { storage->make_directory("dir/new"); });
  refused([&] { storage->list("dir"); });
  refused([&] { storage->sync_directory("dir"); });
  refused([&] { storage->link("dir/secret", "stolen"); });
  refused([&] { storage->remove("dir/secret"); });
  refused([&] { storage->exists("dir/secret"); });
  EXPECT_TRUE(storage->exists("file"));  // the name is taken
  EXPECT_EQ(error_of([&] { storage->create("file"); }).kind(), ErrorKind::conflict);
  storage->remove("file");  // the link, not what it points to
  EXPECT_TRUE(fs::exists(outside / "secret"));
  EXPECT_EQ(std::distance(fs::directory_iterator(outside), fs::directory_iterator()), 1);
}

TEST(PosixStorage, TheRootItselfMayBeASymlink) {
  const TempFolder directory;
  fs::create_directories(directory.file("real"));
  fs::create_directory_symlink("real", directory.file("alias"));
  put(*posix_storage(directory.file("alias"), false), "f", "x");
  EXPECT_TRUE(fs::exists(directory.file("real/f")));
}

TEST(PosixStorage, AFifoDoesNotHangAReader) {
  const TempFolder directory;
  ASSERT_EQ(::mkfifo(directory.file("fifo").c_str(), 0600), 0);
  const auto storage = posix_storage(directory.path(), false);
  EXPECT_EQ(error_of([&] { storage->size("fifo"); }).kind(), ErrorKind::refused);
}

TEST(PosixStorage, AFailedWriteNamesFileAndReason) {
  const TempFolder directory;
  const auto storage = posix_storage(directory.path(), false);
  const auto file = storage->create("f");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Error error = error_of([&] { file->write(std::vector<std::byte>(200)); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(error.kind(), ErrorKind::io);
  EXPECT_EQ(error.place(), "write " + directory.file("f"));
  EXPECT_TRUE(contains(error.detail(), "File too large")) << error.what();
}

}  // namespace
}  // namespace shardproof

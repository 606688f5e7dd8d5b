// run_folder: a folder is live while somebody holds its lock.
#include "harness/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/error.h"

namespace shardproof {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "shardproof-run-";
constexpr std::string_view pattern = "XXXXXX";  // as mkdtemp fills in

int open_folder(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

// Whether the open folder is still the one of that name: a cleaner may have been faster.
bool is_at(int fd, const std::string& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd, &opened) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

bool is_ours(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && status.st_uid == ::geteuid();
}

// Best effort: a folder that cannot be removed is somebody else's, or the next run's work.
void remove_left_folders(const fs::path& parent) {
  std::error_code ignored;
  for (auto entry = fs::directory_iterator(parent, ignored); entry != fs::end(entry);
       entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + pattern.size()) continue;
    const int fd = open_folder(entry->path().string());
    if (fd < 0) continue;
    if (is_ours(fd) && ::flock(fd, LOCK_EX | LOCK_NB) == 0 && is_at(fd, entry->path().string())) {
      std::error_code failed;
      fs::remove_all(entry->path(), failed);
    }
    ::close(fd);
  }
}

[[noreturn]] void fail(const std::string& path, int code) {
  throw Error(ErrorKind::environment, path,
              "a folder of the run cannot be made: " + std::generic_category().message(code));
}

}  // namespace

RunFolder::RunFolder(const std::string& asked) {
  std::error_code code;
  const fs::path parent = asked.empty() ? fs::temp_directory_path(code) : fs::path(asked);
  if (code) fail("TMPDIR", code.value());
  remove_left_folders(parent);
  for (;;) {  // again only when a cleaner came between making and locking
    path_ = (parent / (std::string(prefix) + std::string(pattern))).string();
    if (::mkdtemp(path_.data()) == nullptr) fail(path_, errno);
    lock_ = open_folder(path_);
    if (lock_ < 0 && errno != ENOENT) fail(path_, errno);
    if (lock_ < 0) continue;
    const bool locked = ::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && is_at(lock_, path_)) return;
    ::close(lock_);
  }
}

RunFolder::~RunFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  ::close(lock_);
}

}  // namespace shardproof

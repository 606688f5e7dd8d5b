// append_file: O_APPEND makes concurrent lines whole; a short write is an Error, not continued.
#include "trace/append_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include "trace/file_error.h"

namespace shardproof {
namespace {

// Writers share the lock, who cuts a torn line has it alone: else a line that another process
// appends between looking and cutting would be cut with it. The kernel drops a dead holder's lock.
class FileLock {
 public:
  FileLock(int fd, int operation, const std::string& path) : fd_(fd) {
    int result = 0;
    do {
      result = ::flock(fd, operation);
    } while (result != 0 && errno == EINTR);
    if (result != 0) throw file_error(path, "lock", errno);
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

}  // namespace

AppendFile::AppendFile(const std::string& path) : path_(path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code code;
  std::filesystem::create_directories(folder, code);
  if (code) throw file_error(folder.string(), "create folder", code.value());
  fd_ = ::open(path.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw file_error(path, "open", errno);
  try {
    cut_torn_line();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}

AppendFile::~AppendFile() {
  ::close(fd_);
}

void AppendFile::cut_torn_line() {
  const FileLock alone(fd_, LOCK_EX, path_);
  const off_t size = ::lseek(fd_, 0, SEEK_END);
  if (size < 0) throw file_error(path_, "seek", errno);
  std::array<char, 4096> chunk;
  for (off_t end = size; end > 0;) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(chunk.size()));
    const ssize_t count = ::pread(fd_, chunk.data(), end - begin, begin);
    if (count != end - begin) throw file_error(path_, "read", count < 0 ? errno : EIO);
    while (end > begin && chunk[end - begin - 1] != '\n') --end;
    if (end > begin || begin == 0) {
      if (end < size && ::ftruncate(fd_, end) != 0) throw file_error(path_, "truncate", errno);
      return;
    }
  }
}

void AppendFile::append(std::string line) {
  line += '\n';
  const FileLock shared(fd_, LOCK_SH, path_);
  ssize_t count = 0;
  do {
    count = ::write(fd_, line.data(), line.size());
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(line.size())) {
    throw file_error(path_, "append", count < 0 ? errno : ENOSPC);
  }
}

}  // namespace shardproof

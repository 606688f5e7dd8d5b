// failing_calls_testing: makes a chosen system call of this program fail. The functions through
// which checkpoints touch a file system are defined here, in front of the system's, also for the
// libraries that the program uses. Disarmed, and for files outside the folder they are armed for,
// they go to the kernel as ever; armed, fsync is not carried out: no power fails here.
// To be included in one file of a program. Thread rule: arm and disarm while nobody else is at
// work.
#pragma once

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <initializer_list>
#include <mutex>
#include <string>
#include <vector>

namespace shardproof::damage {

enum class Fault {
  error,        // returns -1 with the errno; nothing is done
  short_count,  // write and pread: one byte is moved. Else: nothing special
};

struct Plan {
  std::mutex mutex;
  std::atomic<bool> armed{false};
  std::string folder;
  int at = 0;
  Fault fault = Fault::error;
  int error = 0;
  std::vector<std::string> seen;
};

inline Plan& plan() {
  static Plan* const made = new Plan;  // calls come until the very end of the process
  return *made;
}

inline std::string path_of(int fd) {
  char link[64];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  char path[4096];
  const long n = ::syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path);
  return n < 0 ? "" : std::string(path, static_cast<std::size_t>(n));
}

enum class Turn { not_yet, fail, short_count };

// Whether this call is the one. `path` is the file's, `name` (may be null) relative to it.
inline Turn turn_of(const char* call, int fd, const char* name) {
  Plan& now = plan();
  const std::scoped_lock lock(now.mutex);
  if (!now.armed) return Turn::not_yet;
  std::string path = path_of(fd);
  if (name != nullptr) path += std::string("/") + name;
  if (!path.starts_with(now.folder)) return Turn::not_yet;
  const int number = static_cast<int>(now.seen.size());
  now.seen.push_back(std::string(call) + " " + path);
  if (number != now.at) return Turn::not_yet;
  if (now.fault == Fault::short_count) return Turn::short_count;
  errno = now.error;
  return Turn::fail;
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Arms: the `at`-th call from now on a file below `folder` fails.
inline void arm(const std::string& folder, int at, Fault fault, int error) {
  Plan& now = plan();
  const std::scoped_lock lock(now.mutex);
  now.armed = true;
  now.folder = folder;
  now.at = at;
  now.fault = fault;
  now.error = error;
  now.seen.clear();
}

// Disarms. Returns the calls seen, as "write /tmp/x/step-1.manifest.json".
inline std::vector<std::string> disarm() {
  Plan& now = plan();
  const std::scoped_lock lock(now.mutex);
  now.armed = false;
  return std::move(now.seen);
}

// What a file system may answer to such a call.
inline bool plausible(const std::string& call, int error) {
  const auto is = [&](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (call.starts_with(std::string(name) + " ")) return true;
    }
    return false;
  };
  if (error == EINTR) return is({"write", "pread", "fsync", "openat", "close"});
  if (error == ENOSPC) return is({"write", "fsync", "close", "openat", "linkat", "mkdirat"});
  if (error == EROFS) return is({"openat", "linkat", "mkdirat", "unlinkat"});
  if (error == EACCES) return is({"openat", "linkat", "mkdirat", "unlinkat", "fstatat"});
  return true;  // EIO
}

}  // namespace shardproof::damage

namespace damage = shardproof::damage;
using damage::Turn;

extern "C" {

int openat(int at, const char* name, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list more;
    va_start(more, flags);
    mode = va_arg(more, mode_t);
    va_end(more);
  }
  if (damage::turn_of("openat", at, name) == Turn::fail) return -1;
  return static_cast<int>(::syscall(SYS_openat, at, name, flags, mode));
}

ssize_t write(int fd, const void* bytes, size_t count) {
  const Turn turn = damage::turn_of("write", fd, nullptr);
  if (turn == Turn::fail) return -1;
  return ::syscall(SYS_write, fd, bytes, turn == Turn::short_count && count > 0 ? 1 : count);
}

ssize_t pread(int fd, void* bytes, size_t count, off_t offset) {
  const Turn turn = damage::turn_of("pread", fd, nullptr);
  if (turn == Turn::fail) return -1;
  return ::syscall(SYS_pread64, fd, bytes, turn == Turn::short_count && count > 0 ? 1 : count,
                   offset);
}

int fsync(int fd) {
  if (damage::turn_of("fsync", fd, nullptr) == Turn::fail) return -1;
  return damage::plan().armed ? 0 : static_cast<int>(::syscall(SYS_fsync, fd));
}

int close(int fd) {
  const Turn turn = damage::turn_of("close", fd, nullptr);
  const int error = errno;
  const int result = static_cast<int>(::syscall(SYS_close, fd));  // it is gone all the same
  if (turn != Turn::fail) return result;
  errno = error;
  return -1;
}

int linkat(int from, const char* old_name, int to, const char* name, int flags) noexcept {
  if (damage::turn_of("linkat", to, name) == Turn::fail) return -1;
  return static_cast<int>(::syscall(SYS_linkat, from, old_name, to, name, flags));
}

int mkdirat(int at, const char* name, mode_t mode) noexcept {
  if (damage::turn_of("mkdirat", at, name) == Turn::fail) return -1;
  return static_cast<int>(::syscall(SYS_mkdirat, at, name, mode));
}

int unlinkat(int at, const char* name, int flags) noexcept {
  if (damage::turn_of("unlinkat", at, name) == Turn::fail) return -1;
  return static_cast<int>(::syscall(SYS_unlinkat, at, name, flags));
}

dirent* readdir(DIR* directory) {
  if (damage::turn_of("readdir", ::dirfd(directory), nullptr) == Turn::fail) return nullptr;
  return damage::next<dirent*(DIR*)>("readdir")(directory);
}

int fstat(int fd, struct stat* status) noexcept {
  if (damage::turn_of("fstat", fd, nullptr) == Turn::fail) return -1;
  return damage::next<int(int, struct stat*)>("fstat")(fd, status);
}

int fstatat(int at, const char* name, struct stat* status, int flags) noexcept {
  if (damage::turn_of("fstatat", at, name) == Turn::fail) return -1;
  return damage::next<int(int, const char*, struct stat*, int)>("fstatat")(at, name, status, flags);
}

}  // extern "C"

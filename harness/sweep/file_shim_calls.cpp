// file_shim_calls: the system calls that change files, by their names in the C library. A close
// changes no file and is no operation; what is opened to be read is none either.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "harness/sweep/file_shim.h"

extern "C" int __open_2(const char* path, int flags);
extern "C" int __open64_2(const char* path, int flags);
extern "C" int __openat_2(int directory, const char* path, int flags);
extern "C" int __openat64_2(int directory, const char* path, int flags);

namespace {

using shardproof::shim::before;
using shardproof::shim::cut;
using shardproof::shim::Go;
using shardproof::shim::Path;
using shardproof::shim::path_of;

void before_open(const char* name, int directory, const char* path, int flags) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  if (writes) before(name, path_of(directory, path));
}

// What an operation on one file does to it, where it cannot be half done.
void before_fd(const char* name, int fd) {
  before(name, path_of(fd));
}

std::size_t bytes_of(const iovec* parts, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += parts[i].iov_len;
  return bytes;
}

// Half of the bytes of a vector, at an offset or (negative) where the file is.
[[noreturn]] void cut_in_half(int fd, const iovec* parts, int count, off64_t at) {
  std::size_t left = bytes_of(parts, count) / 2;
  for (int i = 0; i < count && left > 0; ++i) {
    const std::size_t part = std::min(left, parts[i].iov_len);
    const ssize_t done = at < 0 ? SHIM_REAL(write)(fd, parts[i].iov_base, part)
                                : SHIM_REAL(pwrite64)(fd, parts[i].iov_base, part, at);
    if (done <= 0) break;
    left -= static_cast<std::size_t>(done);
    if (at >= 0) at += done;
  }
  cut();
}

void before_write(const char* name, int fd, const iovec* parts, int count, off64_t at = -1) {
  const Path path = path_of(fd);
  if (!path.under) return;
  if (before(name, path, nullptr, bytes_of(parts, count)) == Go::half) {
    cut_in_half(fd, parts, count, at);
  }
}

void before_write(const char* name, int fd, const void* data, std::size_t bytes, off64_t at = -1) {
  const iovec part{const_cast<void*>(data), bytes};
  before_write(name, fd, &part, 1, at);
}

void before_two(const char* name, int from, const char* old_name, int to, const char* new_name) {
  const Path second = path_of(to, new_name);
  before(name, path_of(from, old_name), &second);
}

}  // namespace

long shardproof::shim::counted_write(int fd, const void* data, std::size_t bytes) {
  before_write("write", fd, data, bytes);
  return SHIM_REAL(write)(fd, data, bytes);
}

#define SHIM_MODE(flags)                           \
  mode_t mode = 0;                                 \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) {    \
    va_list rest;                                  \
    va_start(rest, flags);                         \
    mode = static_cast<mode_t>(va_arg(rest, int)); \
    va_end(rest);                                  \
  }

SHIM_EXPORT int open(const char* path, int flags, ...) {
  SHIM_MODE(flags)
  before_open("open", AT_FDCWD, path, flags);
  return SHIM_REAL(open)(path, flags, mode);
}
SHIM_EXPORT int open64(const char* path, int flags, ...) {
  SHIM_MODE(flags)
  before_open("open", AT_FDCWD, path, flags);
  return SHIM_REAL(open64)(path, flags, mode);
}
SHIM_EXPORT int openat(int directory, const char* path, int flags, ...) {
  SHIM_MODE(flags)
  before_open("openat", directory, path, flags);
  return SHIM_REAL(openat)(directory, path, flags, mode);
}
SHIM_EXPORT int openat64(int directory, const char* path, int flags, ...) {
  SHIM_MODE(flags)
  before_open("openat", directory, path, flags);
  return SHIM_REAL(openat64)(directory, path, flags, mode);
}
SHIM_EXPORT int __open_2(const char* path, int flags) {
  before_open("open", AT_FDCWD, path, flags);
  return SHIM_REAL(__open_2)(path, flags);
}
SHIM_EXPORT int __open64_2(const char* path, int flags) {
  before_open("open", AT_FDCWD, path, flags);
  return SHIM_REAL(__open64_2)(path, flags);
}
SHIM_EXPORT int __openat_2(int directory, const char* path, int flags) {
  before_open("openat", directory, path, flags);
  return SHIM_REAL(__openat_2)(directory, path, flags);
}
SHIM_EXPORT int __openat64_2(int directory, const char* path, int flags) {
  before_open("openat", directory, path, flags);
  return SHIM_REAL(__openat64_2)(directory, path, flags);
}
SHIM_EXPORT int creat(const char* path, mode_t mode) {
  before("creat", path_of(AT_FDCWD, path));
  return SHIM_REAL(creat)(path, mode);
}
SHIM_EXPORT int creat64(const char* path, mode_t mode) {
  before("creat", path_of(AT_FDCWD, path));
  return SHIM_REAL(creat64)(path, mode);
}
SHIM_EXPORT int mkstemp(char* path) {
  before("mkstemp", path_of(AT_FDCWD, path));
  return SHIM_REAL(mkstemp)(path);
}
SHIM_EXPORT int mkstemp64(char* path) {
  before("mkstemp", path_of(AT_FDCWD, path));
  return SHIM_REAL(mkstemp64)(path);
}
SHIM_EXPORT int mkostemp(char* path, int flags) {
  before("mkostemp", path_of(AT_FDCWD, path));
  return SHIM_REAL(mkostemp)(path, flags);
}
SHIM_EXPORT char* mkdtemp(char* path) {
  before("mkdtemp", path_of(AT_FDCWD, path));
  return SHIM_REAL(mkdtemp)(path);
}

SHIM_EXPORT ssize_t write(int fd, const void* data, size_t bytes) {
  before_write("write", fd, data, bytes);
  return SHIM_REAL(write)(fd, data, bytes);
}
SHIM_EXPORT ssize_t pwrite(int fd, const void* data, size_t bytes, off_t at) {
  before_write("pwrite", fd, data, bytes, at);
  return SHIM_REAL(pwrite)(fd, data, bytes, at);
}
SHIM_EXPORT ssize_t pwrite64(int fd, const void* data, size_t bytes, off64_t at) {
  before_write("pwrite", fd, data, bytes, at);
  return SHIM_REAL(pwrite64)(fd, data, bytes, at);
}
SHIM_EXPORT ssize_t writev(int fd, const iovec* parts, int count) {
  before_write("writev", fd, parts, count);
  return SHIM_REAL(writev)(fd, parts, count);
}
SHIM_EXPORT ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
  before_write("pwritev", fd, parts, count, at);
  return SHIM_REAL(pwritev)(fd, parts, count, at);
}
SHIM_EXPORT ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t at) {
  before_write("pwritev", fd, parts, count, at);
  return SHIM_REAL(pwritev64)(fd, parts, count, at);
}
SHIM_EXPORT ssize_t pwritev2(int fd, const iovec* parts, int count, off_t at, int flags) {
  before_write("pwritev2", fd, parts, count, at);
  return SHIM_REAL(pwritev2)(fd, parts, count, at, flags);
}
SHIM_EXPORT ssize_t pwritev64v2(int fd, const iovec* parts, int count, off64_t at, int flags) {
  before_write("pwritev2", fd, parts, count, at);
  return SHIM_REAL(pwritev64v2)(fd, parts, count, at, flags);
}
SHIM_EXPORT ssize_t sendfile(int to, int from, off_t* at, size_t bytes) {
  if (before("sendfile", path_of(to), nullptr, bytes) == Go::half) {
    SHIM_REAL(sendfile)(to, from, at, bytes / 2);
    cut();
  }
  return SHIM_REAL(sendfile)(to, from, at, bytes);
}
SHIM_EXPORT ssize_t sendfile64(int to, int from, off64_t* at, size_t bytes) {
  if (before("sendfile", path_of(to), nullptr, bytes) == Go::half) {
    SHIM_REAL(sendfile64)(to, from, at, bytes / 2);
    cut();
  }
  return SHIM_REAL(sendfile64)(to, from, at, bytes);
}
SHIM_EXPORT ssize_t copy_file_range(int from, off64_t* from_at, int to, off64_t* to_at,
                                    size_t bytes, unsigned flags) {
  if (before("copy_file_range", path_of(to), nullptr, bytes) == Go::half) {
    SHIM_REAL(copy_file_range)(from, from_at, to, to_at, bytes / 2, flags);
    cut();
  }
  return SHIM_REAL(copy_file_range)(from, from_at, to, to_at, bytes, flags);
}
SHIM_EXPORT ssize_t splice(int from, off64_t* from_at, int to, off64_t* to_at, size_t bytes,
                           unsigned flags) {
  before_fd("splice", to);
  return SHIM_REAL(splice)(from, from_at, to, to_at, bytes, flags);
}

SHIM_EXPORT int ftruncate(int fd, off_t size) noexcept {
  before_fd("ftruncate", fd);
  return SHIM_REAL(ftruncate)(fd, size);
}
SHIM_EXPORT int ftruncate64(int fd, off64_t size) noexcept {
  before_fd("ftruncate", fd);
  return SHIM_REAL(ftruncate64)(fd, size);
}
SHIM_EXPORT int truncate(const char* path, off_t size) noexcept {
  before("truncate", path_of(AT_FDCWD, path));
  return SHIM_REAL(truncate)(path, size);
}
SHIM_EXPORT int truncate64(const char* path, off64_t size) noexcept {
  before("truncate", path_of(AT_FDCWD, path));
  return SHIM_REAL(truncate64)(path, size);
}
SHIM_EXPORT int fallocate(int fd, int mode, off_t at, off_t size) {
  before_fd("fallocate", fd);
  return SHIM_REAL(fallocate)(fd, mode, at, size);
}
SHIM_EXPORT int fallocate64(int fd, int mode, off64_t at, off64_t size) {
  before_fd("fallocate", fd);
  return SHIM_REAL(fallocate64)(fd, mode, at, size);
}
SHIM_EXPORT int posix_fallocate(int fd, off_t at, off_t size) {
  before_fd("posix_fallocate", fd);
  return SHIM_REAL(posix_fallocate)(fd, at, size);
}
SHIM_EXPORT int posix_fallocate64(int fd, off64_t at, off64_t size) {
  before_fd("posix_fallocate", fd);
  return SHIM_REAL(posix_fallocate64)(fd, at, size);
}
SHIM_EXPORT int fsync(int fd) {
  before_fd("fsync", fd);
  return SHIM_REAL(fsync)(fd);
}
SHIM_EXPORT int fdatasync(int fd) {
  before_fd("fdatasync", fd);
  return SHIM_REAL(fdatasync)(fd);
}

SHIM_EXPORT int rename(const char* from, const char* to) noexcept {
  before_two("rename", AT_FDCWD, from, AT_FDCWD, to);
  return SHIM_REAL(rename)(from, to);
}
SHIM_EXPORT int renameat(int from, const char* path, int to, const char* new_path) noexcept {
  before_two("renameat", from, path, to, new_path);
  return SHIM_REAL(renameat)(from, path, to, new_path);
}
SHIM_EXPORT int renameat2(int from, const char* path, int to, const char* new_path,
                          unsigned flags) noexcept {
  before_two("renameat2", from, path, to, new_path);
  return SHIM_REAL(renameat2)(from, path, to, new_path, flags);
}
SHIM_EXPORT int link(const char* from, const char* to) noexcept {
  before_two("link", AT_FDCWD, from, AT_FDCWD, to);
  return SHIM_REAL(link)(from, to);
}
SHIM_EXPORT int linkat(int from, const char* path, int to, const char* new_path,
                       int flags) noexcept {
  before_two("linkat", from, path, to, new_path);
  return SHIM_REAL(linkat)(from, path, to, new_path, flags);
}
SHIM_EXPORT int symlink(const char* target, const char* path) noexcept {
  before("symlink", path_of(AT_FDCWD, path));
  return SHIM_REAL(symlink)(target, path);
}
SHIM_EXPORT int symlinkat(const char* target, int directory, const char* path) noexcept {
  before("symlinkat", path_of(directory, path));
  return SHIM_REAL(symlinkat)(target, directory, path);
}
SHIM_EXPORT int unlink(const char* path) noexcept {
  before("unlink", path_of(AT_FDCWD, path));
  return SHIM_REAL(unlink)(path);
}
SHIM_EXPORT int unlinkat(int directory, const char* path, int flags) noexcept {
  before("unlinkat", path_of(directory, path));
  return SHIM_REAL(unlinkat)(directory, path, flags);
}
SHIM_EXPORT int remove(const char* path) noexcept {
  before("remove", path_of(AT_FDCWD, path));
  return SHIM_REAL(remove)(path);
}
SHIM_EXPORT int mkdir(const char* path, mode_t mode) noexcept {
  before("mkdir", path_of(AT_FDCWD, path));
  return SHIM_REAL(mkdir)(path, mode);
}
SHIM_EXPORT int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  before("mkdirat", path_of(directory, path));
  return SHIM_REAL(mkdirat)(directory, path, mode);
}
SHIM_EXPORT int rmdir(const char* path) noexcept {
  before("rmdir", path_of(AT_FDCWD, path));
  return SHIM_REAL(rmdir)(path);
}

SHIM_EXPORT void* mmap(void* at, size_t bytes, int protection, int flags, int fd,
                       off_t offset) noexcept {
  const bool writes = (protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0;
  if (writes && fd >= 0 && path_of(fd).under) shardproof::shim::saw_mapping();
  return SHIM_REAL(mmap)(at, bytes, protection, flags, fd, offset);
}
SHIM_EXPORT void* mmap64(void* at, size_t bytes, int protection, int flags, int fd,
                         off64_t offset) noexcept {
  const bool writes = (protection & PROT_WRITE) != 0 && (flags & MAP_SHARED) != 0;
  if (writes && fd >= 0 && path_of(fd).under) shardproof::shim::saw_mapping();
  return SHIM_REAL(mmap64)(at, bytes, protection, flags, fd, offset);
}

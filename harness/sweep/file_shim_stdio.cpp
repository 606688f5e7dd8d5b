// file_shim_stdio: streams of the C library. Its own writes do not pass by the wrappers, so a
// stream that writes under the root becomes one over a descriptor of ours, whose writes are
// counted. fileno() still gives that descriptor (programs call fsync with it; C++ streams write to
// it).
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "harness/sweep/file_shim.h"

namespace {

using shardproof::shim::path_of;

struct Stream {
  FILE* file;
  int fd;
};

constexpr int max_streams = 256;  // open at once; further ones fail with EMFILE
Stream streams[max_streams];

Stream* take_slot() {
  for (Stream& slot : streams) {
    FILE* none = nullptr;
    FILE* const taken = reinterpret_cast<FILE*>(1);
    if (__atomic_compare_exchange_n(&slot.file, &none, taken, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST)) {
      return &slot;
    }
  }
  return nullptr;
}

const Stream* find(const FILE* file) {
  for (const Stream& slot : streams) {
    if (__atomic_load_n(&slot.file, __ATOMIC_SEQ_CST) == file) return &slot;
  }
  return nullptr;
}

ssize_t read_stream(void* cookie, char* data, size_t bytes) {
  return ::read(static_cast<Stream*>(cookie)->fd, data, bytes);
}

ssize_t write_stream(void* cookie, const char* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const long count = shardproof::shim::counted_write(static_cast<Stream*>(cookie)->fd,
                                                       data + done, bytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return static_cast<ssize_t>(done);
    done += static_cast<size_t>(count);
  }
  return static_cast<ssize_t>(done);
}

int seek_stream(void* cookie, off64_t* at, int whence) {
  const off64_t found = ::lseek64(static_cast<Stream*>(cookie)->fd, *at, whence);
  if (found < 0) return -1;
  *at = found;
  return 0;
}

int close_stream(void* cookie) {
  auto* slot = static_cast<Stream*>(cookie);
  const int fd = slot->fd;
  __atomic_store_n(&slot->file, static_cast<FILE*>(nullptr), __ATOMIC_SEQ_CST);
  return ::close(fd);
}

// Flags of open for a mode of fopen; -1 for one that only reads or that is not understood.
int flags_of(const char* mode) {
  if (mode == nullptr || std::strchr(mode, ',') != nullptr) return -1;
  const bool both = std::strchr(mode, '+') != nullptr;
  if (mode[0] == 'r' && !both) return -1;
  int flags = both ? O_RDWR : O_WRONLY;
  if (mode[0] == 'w') flags |= O_CREAT | O_TRUNC;
  if (mode[0] == 'a') flags |= O_CREAT | O_APPEND;
  if (std::strchr(mode, 'x') != nullptr) flags |= O_EXCL;
  if (std::strchr(mode, 'e') != nullptr) flags |= O_CLOEXEC;
  return std::strchr("rwa", mode[0]) != nullptr ? flags : -1;
}

FILE* stream_over(int fd, const char* mode) {
  Stream* slot = take_slot();
  if (slot == nullptr) {
    errno = EMFILE;
    return nullptr;
  }
  slot->fd = fd;
  FILE* file = ::fopencookie(slot, mode, {read_stream, write_stream, seek_stream, close_stream});
  __atomic_store_n(&slot->file, file, __ATOMIC_SEQ_CST);
  return file;
}

// Whether the stream was made; else the caller passes on.
bool open_stream(const char* path, const char* mode, FILE*& file) {
  const int flags = flags_of(mode);
  if (flags < 0 || !path_of(AT_FDCWD, path).under) return false;
  const int fd = ::open(path, flags, 0666);  // counted
  file = fd < 0 ? nullptr : stream_over(fd, mode);
  if (fd >= 0 && file == nullptr) ::close(fd);
  return true;
}

}  // namespace

SHIM_EXPORT FILE* fopen(const char* path, const char* mode) {
  FILE* file = nullptr;
  return open_stream(path, mode, file) ? file : SHIM_REAL(fopen)(path, mode);
}
SHIM_EXPORT FILE* fopen64(const char* path, const char* mode) {
  FILE* file = nullptr;
  return open_stream(path, mode, file) ? file : SHIM_REAL(fopen64)(path, mode);
}
SHIM_EXPORT FILE* fdopen(int fd, const char* mode) noexcept {
  if (flags_of(mode) < 0 || !path_of(fd).under) return SHIM_REAL(fdopen)(fd, mode);
  return stream_over(fd, mode);
}
SHIM_EXPORT int fileno(FILE* file) noexcept {
  const Stream* stream = find(file);
  return stream != nullptr ? stream->fd : SHIM_REAL(fileno)(file);
}
SHIM_EXPORT int fileno_unlocked(FILE* file) noexcept {
  const Stream* stream = find(file);
  return stream != nullptr ? stream->fd : SHIM_REAL(fileno_unlocked)(file);
}

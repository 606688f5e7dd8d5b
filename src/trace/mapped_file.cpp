// mapped_file: open, map, close; the mapping outlives the descriptor.
#include "trace/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "trace/file_error.h"

namespace shardproof {

MappedFile::MappedFile(const std::string& path) {
  // Without blocking: a pipe in place of a file is refused, not waited for.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw file_error(path, "open", errno);
  struct stat status {};
  int code = ::fstat(fd, &status) == 0 ? 0 : errno;
  if (code == 0 && !S_ISREG(status.st_mode)) code = EINVAL;
  void* data = nullptr;
  if (code == 0 && status.st_size > 0) {  // an empty file cannot be mapped, and need not be
    data = ::mmap(nullptr, status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) code = errno;
  }
  ::close(fd);
  if (code != 0) throw file_error(path, "map", code);
  data_ = static_cast<const std::byte*>(data);
  size_ = static_cast<std::size_t>(status.st_size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void release_pages(std::span<const std::byte> bytes) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (bytes.empty()) return;
  // Whole pages, and those at both ends too: nothing is lost of a mapping that is never written.
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) / page * page;
  const auto end = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
  ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace shardproof

// file_map: see the header.
#include "checkpoint/foreign/file_map.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace shardproof::foreign {
namespace {

// Eight tables: eight bytes a step.
using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value & 1 ? 0xedb88320U : 0);
    tables[0][i] = value;
  }
  for (std::size_t table = 1; table < 8; ++table) {
    for (std::size_t i = 0; i < 256; ++i) {
      const std::uint32_t before = tables[table - 1][i];
      tables[table][i] = before >> 8 ^ tables[0][before & 0xff];
    }
  }
  return tables;
}

constexpr Tables tables = make_tables();

}  // namespace

FileMap::FileMap(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status {};
  if (fd < 0 || ::fstat(fd, &status) != 0) {
    const int reason = errno;
    if (fd >= 0) ::close(fd);
    throw Error(ErrorKind::io, path, std::strerror(reason));
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    throw Error(ErrorKind::io, path, "is no regular file");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  void* memory = size_ == 0 ? nullptr : ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, fd, 0);
  const int reason = errno;
  ::close(fd);
  if (memory == MAP_FAILED) throw Error(ErrorKind::io, path, std::strerror(reason));
  data_ = static_cast<const std::byte*>(memory);
}

FileMap::~FileMap() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

std::uint64_t number_at(std::span<const std::byte> bytes, std::uint64_t at, int width) {
  std::uint64_t number = 0;
  for (int i = width; i-- > 0;) {
    number = number << 8 | std::to_integer<std::uint64_t>(bytes[at + static_cast<unsigned>(i)]);
  }
  return number;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  std::size_t at = 0;
  for (; bytes.size() - at >= 8; at += 8) {
    std::array<std::uint8_t, 8> part;
    std::memcpy(part.data(), bytes.data() + at, 8);
    for (std::size_t i = 0; i < 4; ++i) part[i] ^= static_cast<std::uint8_t>(crc >> (8 * i));
    crc = 0;
    for (std::size_t i = 0; i < 8; ++i) crc ^= tables[7 - i][part[i]];
  }
  for (; at < bytes.size(); ++at) {
    crc = crc >> 8 ^ tables[0][(crc ^ std::to_integer<std::uint32_t>(bytes[at])) & 0xff];
  }
  return ~crc;
}

}  // namespace shardproof::foreign

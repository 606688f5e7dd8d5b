// offload_file: pread and pwrite until all is done, and what came back compared with what went.
#include "parallel/offload_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "base/check.h"
#include "base/error.h"

namespace shardproof {
namespace {

constexpr std::int64_t block_bytes = block_elements * static_cast<std::int64_t>(sizeof(float));

std::string words(int error) {
  return std::generic_category().message(error);
}

// Calls body(block, part) for each block of `values`, which begin at `block`.
template <typename Values, typename Body>
void each_block(std::int64_t block, Values values, const Body& body) {
  while (!values.empty()) {
    const auto part = values.first(std::min<std::size_t>(values.size(), block_elements));
    body(block++, part);
    values = values.subspan(part.size());
  }
}

}  // namespace

int FileCalls::create(char* path) {
  return ::mkostemp(path, O_CLOEXEC);
}
ssize_t FileCalls::read(int fd, void* to, std::size_t bytes, off_t at) {
  return ::pread(fd, to, bytes, at);
}
ssize_t FileCalls::write(int fd, const void* from, std::size_t bytes, off_t at) {
  return ::pwrite(fd, from, bytes, at);
}
off_t FileCalls::size(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : -1;
}

OffloadFile::OffloadFile(const std::string& directory, int rank, std::unique_ptr<FileCalls> calls)
    : calls_(std::move(calls)),
      rank_(rank),
      name_(fmt::format("{}/shardproof-offload.rank_{:05}.XXXXXX", directory, rank)) {
  std::string path = name_;
  fd_ = calls_->create(path.data());
  if (fd_ < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    throw Error(missing ? ErrorKind::bad_input : ErrorKind::io, "create " + name_,
                words(errno) + "; expected a folder that can be written into", rank_);
  }
  name_ = path;
  if (::unlink(name_.c_str()) == 0) return;
  const int error = errno;
  ::close(fd_);
  throw Error(ErrorKind::io, "remove the name of " + name_, words(error), rank_);
}

OffloadFile::~OffloadFile() {
  ::close(fd_);
}

std::int64_t OffloadFile::reserve(std::int64_t elements) {
  const auto first = static_cast<std::int64_t>(sums_.size());
  static const std::vector<float> zeros(64 * block_elements);
  for (std::int64_t done = 0; done < elements;) {
    const std::int64_t count =
        std::min<std::int64_t>(elements - done, static_cast<std::int64_t>(zeros.size()));
    const std::int64_t block = first + done / block_elements;
    sums_.resize(static_cast<std::size_t>(block + (count + block_elements - 1) / block_elements));
    write_bytes(std::as_bytes(std::span(zeros).first(static_cast<std::size_t>(count))),
                block * block_bytes);
    end_ = block * block_bytes + count * static_cast<std::int64_t>(sizeof(float));
    done += count;
  }
  return first;
}

void OffloadFile::read(std::int64_t block, std::span<float> to) {
  check_size("read");
  read_bytes(std::as_writable_bytes(to), block * block_bytes);
  each_block(block, to, [&](std::int64_t i, std::span<const float> part) {
    if (sums_of(part) == sums_.at(static_cast<std::size_t>(i))) return;
    throw Error(ErrorKind::corrupt, "read " + name_,
                fmt::format("the {} bytes at byte {} are not those that were written",
                            part.size_bytes(), i * block_bytes),
                rank_);
  });
}

void OffloadFile::write(std::int64_t block, std::span<const float> from) {
  check_size("write");  // a write behind a cut would fill the gap with zeros
  each_block(block, from, [&](std::int64_t i, std::span<const float> part) {
    sums_.at(static_cast<std::size_t>(i)) = sums_of(part);
  });
  write_bytes(std::as_bytes(from), block * block_bytes);
}

// Fletcher's two sums over 32-bit words: a changed, moved or lost word shows in one of them.
OffloadFile::Sums OffloadFile::sums_of(std::span<const float> block) {
  Sums sums;
  for (const float value : block) {
    sums.words += std::bit_cast<std::uint32_t>(value);
    sums.prefixes += sums.words;
  }
  return sums;
}

void OffloadFile::check_size(const char* operation) {
  const off_t found = calls_->size(fd_);
  if (found < 0) {
    throw Error(ErrorKind::io, fmt::format("size of {}", name_), words(errno), rank_);
  }
  if (found == end_) return;
  throw Error(ErrorKind::corrupt, fmt::format("{} {}", operation, name_),
              fmt::format("the file has {} bytes; expected {}, as it was left", found, end_),
              rank_);
}

void OffloadFile::write_bytes(std::span<const std::byte> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = calls_->write(fd_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      throw Error(
          ErrorKind::io, "write " + name_,
          fmt::format("{}; {} bytes at byte {}", words(n < 0 ? errno : ENOSPC), bytes.size(), at),
          rank_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
}

void OffloadFile::read_bytes(std::span<std::byte> bytes, std::int64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = calls_->read(fd_, bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      throw Error(ErrorKind::io, "read " + name_,
                  fmt::format("{}; {} bytes at byte {}", words(errno), bytes.size(), at), rank_);
    }
    if (n == 0) {
      throw Error(ErrorKind::corrupt, "read " + name_,
                  fmt::format("the file ends at byte {}; expected {} bytes more", at, bytes.size()),
                  rank_);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    at += n;
  }
}

}  // namespace shardproof

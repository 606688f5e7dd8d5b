// token_stream: maps a file, reads its header, checks its tokens.
#include "data/token_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr std::size_t header_words = 256;
constexpr std::size_t header_bytes = header_words * 4;
constexpr std::int32_t gpt2_magic = 20240520;    // uint16 tokens
constexpr std::int32_t llama3_magic = 20240801;  // uint32 tokens
constexpr std::int32_t header_version = 1;

[[noreturn]] void refuse(const std::string& path, const std::string& detail) {
  throw Error(ErrorKind::bad_input, path, detail);
}

std::string reason(int error) {
  return std::generic_category().message(error);
}

// Opens without blocking: a pipe in place of a file is refused, not waited for.
class FileDescriptor {
 public:
  explicit FileDescriptor(const std::string& path)
      : value_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (value_ < 0) refuse(path, fmt::format("cannot be opened: {}", reason(errno)));
  }
  ~FileDescriptor() { ::close(value_); }
  FileDescriptor(const FileDescriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

std::int32_t header_word(std::span<const std::byte> bytes, std::size_t index) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    word |= std::to_integer<std::uint32_t>(bytes[4 * index + i]) << (8 * i);
  }
  return static_cast<std::int32_t>(word);
}

}  // namespace

TokenStream::TokenStream(const std::string& path) : path_(path) {
  const FileDescriptor file(path);
  struct stat status {};
  if (::fstat(file.value(), &status) != 0) {
    refuse(path, fmt::format("cannot be read: {}", reason(errno)));
  }
  if (!S_ISREG(status.st_mode)) refuse(path, "is not a regular file");
  const auto bytes = static_cast<std::size_t>(status.st_size);
  if (bytes == 0) refuse(path, "is empty");
  void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file.value(), 0);
  if (address == MAP_FAILED) refuse(path, fmt::format("cannot be mapped: {}", reason(errno)));
  mapping_ = std::shared_ptr<const void>(
      address, [bytes](const void* mapped) { ::munmap(const_cast<void*>(mapped), bytes); });
  bytes_ = {static_cast<const std::byte*>(address), bytes};
  digest_ = sha256(bytes_.data(), bytes_.size());
}

TokenStream TokenStream::open_text(const std::string& path) {
  TokenStream stream(path);
  stream.tokens_ = stream.bytes_.data();
  stream.size_ = static_cast<std::int64_t>(stream.bytes_.size());
  return stream;
}

TokenStream TokenStream::open_tokens(const std::string& path, int vocabulary) {
  TokenStream stream(path);
  stream.width_ = 2;
  stream.find_tokens();
  stream.check_tokens(vocabulary);
  return stream;
}

void TokenStream::find_tokens() {
  const std::int32_t magic = bytes_.size() >= 4 ? header_word(bytes_, 0) : 0;
  if (magic == llama3_magic) {
    refuse(path_, fmt::format("byte 0: found magic {} (uint32 tokens); expected uint16 tokens, "
                              "without a header or with magic {}",
                              llama3_magic, gpt2_magic));
  }
  if (magic != gpt2_magic) {
    if (bytes_.size() % 2 != 0) {
      refuse(path_,
             fmt::format("holds {} bytes; expected an even number (uint16 tokens)", bytes_.size()));
    }
    tokens_ = bytes_.data();
    size_ = static_cast<std::int64_t>(bytes_.size() / 2);
    return;
  }
  if (bytes_.size() < header_bytes) {
    refuse(path_, fmt::format("holds {} bytes; expected a header of {} after magic {}",
                              bytes_.size(), header_bytes, gpt2_magic));
  }
  if (const std::int32_t version = header_word(bytes_, 1); version != header_version) {
    refuse(path_, fmt::format("byte 4: found version {}; expected {}", version, header_version));
  }
  const std::int32_t count = header_word(bytes_, 2);
  const std::size_t body = bytes_.size() - header_bytes;
  if (count < 0 || static_cast<std::size_t>(count) * 2 != body) {
    refuse(path_, fmt::format("byte 8: the header says {} tokens and {} bytes follow it; expected "
                              "2 bytes a token",
                              count, body));
  }
  tokens_ = bytes_.data() + header_bytes;
  size_ = count;
}

void TokenStream::check_tokens(int vocabulary) const {
  for (std::int64_t i = 0; i < size_; ++i) {
    if ((*this)[i] >= vocabulary) {
      refuse(path_, fmt::format("token {}: found {}; expected a token below the vocabulary of {}",
                                i, (*this)[i], vocabulary));
    }
  }
}

}  // namespace shardproof

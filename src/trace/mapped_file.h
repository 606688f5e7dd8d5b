// mapped_file: a whole file as read-only memory. Not checked: a file that is cut short by somebody
// else while it is mapped (the system then raises SIGBUS). Thread rule: immutable.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace shardproof {

class MappedFile {
 public:
  explicit MappedFile(const std::string& path);  // Error io
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Takes pages of a mapped file out of this process's memory; the next look maps them again. For
// what is read once, in order: files larger than memory.
void release_pages(std::span<const std::byte> bytes);

}  // namespace shardproof

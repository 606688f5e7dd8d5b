// file_map: a file of somebody else as read-only memory, so that no size that it claims is ever
// allocated. Not checked: a file that is cut short while it is mapped (SIGBUS). Thread rule:
// immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace shardproof::foreign {

class FileMap {
 public:
  explicit FileMap(const std::string& path);  // Error io: it cannot be read, or is no file
  ~FileMap();
  FileMap(const FileMap&) = delete;
  FileMap& operator=(const FileMap&) = delete;

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::uint64_t size() const { return size_; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Little-endian, at a place that the caller has checked.
std::uint64_t number_at(std::span<const std::byte> bytes, std::uint64_t at, int width);
std::string_view text_of(std::span<const std::byte> bytes);

std::uint32_t crc32(std::span<const std::byte> bytes);  // IEEE 802.3, as zip has it

}  // namespace shardproof::foreign

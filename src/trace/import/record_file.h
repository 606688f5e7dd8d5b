// record_file: TFRecord framing: length (8 bytes), its masked CRC32C, data, the data's masked
// CRC32C, little-endian. Thread rule: a reader belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace shardproof {

struct FileRecord {
  std::uint64_t offset = 0;  // of its data in the file
  std::span<const std::byte> data;
};

// Over the bytes of a file, which must stay valid. A record that the end of the file cuts is torn:
// legal, a writer may be running.
class RecordReader {
 public:
  RecordReader(std::span<const std::byte> file, std::string path);

  // The next whole record, or nothing at the end. Error corrupt naming file and offset when a CRC
  // is wrong.
  std::optional<FileRecord> next();
  bool torn() const { return torn_; }  // once next() gave nothing

 private:
  std::span<const std::byte> file_;
  std::string path_;
  std::size_t at_ = 0;
  bool torn_ = false;
};

std::string framed_record(std::string_view data);

}  // namespace shardproof

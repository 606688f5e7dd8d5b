// record_file: no length is believed before its CRC, no data before theirs.
#include "trace/import/record_file.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/error.h"
#include "trace/import/crc32c.h"

namespace shardproof {
namespace {

constexpr std::size_t head = 12, foot = 4;

template <typename Unsigned>
Unsigned little(std::span<const std::byte> bytes) {
  Unsigned value = 0;
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    value |= static_cast<Unsigned>(bytes[i]) << (8 * i);
  }
  return value;
}

template <typename Unsigned>
void put_little(std::string& out, Unsigned value) {
  for (std::size_t i = 0; i < sizeof(Unsigned); ++i) {
    out += static_cast<char>((value >> (8 * i)) & 0xff);
  }
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

}  // namespace

RecordReader::RecordReader(std::span<const std::byte> file, std::string path)
    : file_(file), path_(std::move(path)) {}

std::optional<FileRecord> RecordReader::next() {
  const auto check = [&](std::span<const std::byte> data, std::size_t crc_at, const char* what) {
    const auto stored = little<std::uint32_t>(file_.subspan(crc_at, foot));
    const std::uint32_t found = masked_crc32c(data);
    if (stored == found) return;
    throw Error(
        ErrorKind::corrupt, fmt::format("{}: byte {}", path_, at_),
        fmt::format("CRC of a record's {} is {:08x}, its bytes have {:08x}", what, stored, found));
  };
  const std::size_t left = file_.size() - at_;
  torn_ = left > 0 && left < head;
  if (left < head) return std::nullopt;
  check(file_.subspan(at_, 8), at_ + 8, "length");
  const auto length = little<std::uint64_t>(file_.subspan(at_, 8));
  torn_ = left - head < foot || length > left - head - foot;
  if (torn_) return std::nullopt;
  const std::size_t data_at = at_ + head;
  const auto data = file_.subspan(data_at, static_cast<std::size_t>(length));
  check(data, data_at + data.size(), "data");
  at_ = data_at + data.size() + foot;
  return FileRecord{data_at, data};
}

std::string framed_record(std::string_view data) {
  std::string out;
  put_little(out, static_cast<std::uint64_t>(data.size()));
  put_little(out, masked_crc32c(bytes_of(out)));
  out += data;
  put_little(out, masked_crc32c(bytes_of(data)));
  return out;
}

}  // namespace shardproof

// zip: see the header. Signatures and fields are those of PKWARE's APPNOTE 6.3.
#include "checkpoint/foreign/zip.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"

namespace shardproof::foreign {
namespace {

constexpr std::uint64_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
constexpr std::uint64_t end64_bytes = 56, locator_bytes = 20;
constexpr std::uint32_t in_extra32 = 0xffffffff;

struct Directory {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t records = 0;
};

class Reader {
 public:
  Reader(std::span<const std::byte> archive, const std::string& origin)
      : archive_(archive), origin_(origin) {}

  std::map<std::string, ZipRecord> read() {
    const Directory directory = find_directory();
    std::map<std::string, ZipRecord> records;
    std::uint64_t at = directory.begin;
    for (std::uint64_t i = 0; i < directory.records; ++i) {
      if (!has(at, central_bytes, directory.end) || number(at, 4) != 0x02014b50) {
        fail(fmt::format("its directory has {} of {} records", i, directory.records));
      }
      const std::uint64_t name_bytes = number(at + 28, 2), extra_bytes = number(at + 30, 2);
      const std::uint64_t next = at + central_bytes + name_bytes + extra_bytes + number(at + 32, 2);
      if (next > directory.end) fail("a record of its directory runs past the directory");
      const std::string name = text(at + central_bytes, name_bytes);
      const ZipRecord record = read_record(at, name, directory.begin);
      if (!records.emplace(name, record).second) fail("record '" + name + "' is there twice");
      at = next;
    }
    if (at != directory.end) fail("its directory has bytes after the last record");
    check_overlap(records);
    return records;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::corrupt, origin_, "zip archive: " + what);
  }
  static bool has(std::uint64_t at, std::uint64_t bytes, std::uint64_t limit) {
    return at <= limit && bytes <= limit - at;
  }
  std::uint64_t number(std::uint64_t at, int width) const { return number_at(archive_, at, width); }
  std::string text(std::uint64_t at, std::uint64_t bytes) const {
    return std::string(text_of(archive_.subspan(at, bytes)));
  }

  // torch writes no comment, so the end is the last 22 bytes.
  Directory find_directory() const {
    const std::uint64_t size = archive_.size();
    if (size < end_bytes || number(size - end_bytes, 4) != 0x06054b50) {
      fail(
          fmt::format("no end of its directory in the last bytes of {}: it is cut short, or has "
                      "bytes behind it",
                      size));
    }
    const std::uint64_t end = size - end_bytes;
    Directory directory{number(end + 16, 4), 0, number(end + 10, 2)};
    directory.end = directory.begin + number(end + 12, 4);
    std::uint64_t limit = end;
    if (end >= locator_bytes && number(end - locator_bytes, 4) == 0x07064b50) {
      const std::uint64_t at = number(end - locator_bytes + 8, 8);
      limit = at;
      if (!has(at, end64_bytes, end - locator_bytes) || number(at, 4) != 0x06064b50) {
        fail("the end of its directory (zip64) is not where it should be");
      }
      const std::uint64_t bytes = number(at + 40, 8);
      directory = {number(at + 48, 8), 0, number(at + 32, 8)};
      if (!has(directory.begin, bytes, size)) fail("its directory lies outside of it");
      directory.end = directory.begin + bytes;
    }
    if (directory.begin > directory.end || directory.end != limit) {
      fail("its directory does not end where the end of the directory begins");
    }
    return directory;
  }

  // Sizes and offset of 64 bits, for those that are all ones in the record.
  void widen(std::uint64_t at, std::uint64_t bytes, std::vector<std::uint64_t*> fields) const {
    for (std::uint64_t left = bytes; left >= 4;) {
      const std::uint64_t id = number(at, 2), length = number(at + 2, 2);
      if (length > left - 4) fail("an extra field that is cut short");
      std::uint64_t field = at + 4;
      for (std::uint64_t* value : fields) {
        if (id != 1 || *value != in_extra32) continue;
        if (field + 8 > at + 4 + length) fail("a zip64 field that is cut short");
        *value = number(field, 8);
        field += 8;
      }
      at += 4 + length;
      left -= 4 + length;
    }
  }

  ZipRecord read_record(std::uint64_t at, const std::string& name, std::uint64_t limit) const {
    std::uint64_t stored = number(at + 20, 4), bytes = number(at + 24, 4),
                  local = number(at + 42, 4);
    widen(at + central_bytes + name.size(), number(at + 30, 2), {&bytes, &stored, &local});
    if (number(at + 10, 2) != 0 || stored != bytes || (number(at + 8, 2) & 1) != 0) {
      fail("record '" + name + "' is compressed or encrypted; expected it as it is");
    }
    if (!has(local, local_bytes, limit) || number(local, 4) != 0x04034b50) {
      fail("record '" + name + "' has no local header where the directory says");
    }
    const std::uint64_t name_bytes = number(local + 26, 2);
    const std::uint64_t head = local_bytes + name_bytes + number(local + 28, 2);
    if (!has(local, head, limit) || text(local + local_bytes, name_bytes) != name) {
      fail("record '" + name + "' has another name in its local header");
    }
    ZipRecord record{local + head, 0, static_cast<std::uint32_t>(number(at + 16, 4)), true};
    if (!has(record.begin, bytes, limit)) fail("record '" + name + "' runs into the directory");
    record.end = record.begin + bytes;
    record.whole = crc32(archive_.subspan(record.begin, bytes)) == record.crc;
    return record;
  }

  void check_overlap(const std::map<std::string, ZipRecord>& records) const {
    std::map<std::uint64_t, std::uint64_t> ranges;
    for (const auto& [name, record] : records) {
      if (record.begin == record.end) continue;
      const auto [at, fresh] = ranges.emplace(record.begin, record.end);
      const auto next = std::next(at);
      const bool before = at != ranges.begin() && std::prev(at)->second > record.begin;
      if (!fresh || before || (next != ranges.end() && next->first < record.end)) {
        fail("record '" + name + "' overlaps another");
      }
    }
  }

  std::span<const std::byte> archive_;
  const std::string& origin_;
};

}  // namespace

bool looks_like_zip(std::span<const std::byte> archive) {
  return archive.size() >= 4 && number_at(archive, 0, 4) == 0x04034b50;
}

std::map<std::string, ZipRecord> read_zip(std::span<const std::byte> archive,
                                          const std::string& origin) {
  return Reader(archive, origin).read();
}

}  // namespace shardproof::foreign

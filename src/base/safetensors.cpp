// safetensors: every number of a header is checked against the file before it is used.
#include "base/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

namespace shardproof {
namespace {

constexpr std::uint64_t prefix_bytes = 8;
constexpr const char* metadata_key = "__metadata__";

std::uint64_t unsigned_value(const Json& value, const char* what, const std::string& place) {
  // A parsed non-negative integer is always of the library's unsigned type.
  if (!value.is_number_unsigned()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("{}: expected an integer >= 0, found {}", what, value.dump()));
  }
  return value.get<std::uint64_t>();
}

const Json& array_member(const Json& object, const char* key, const std::string& place) {
  const Json& value = member(object, key, place);
  if (!value.is_array()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"{}\": expected an array, found {}", key, value.type_name()));
  }
  return value;
}

// Bytes of the shape; Error where they overflow 63 bits.
std::uint64_t shape_bytes(const Shape& shape, Dtype dtype, const std::string& place) {
  auto bytes = static_cast<std::int64_t>(size_of(dtype));
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) {
      throw Error(ErrorKind::corrupt, place, "the shape overflows 63 bits");
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

Dtype parse_dtype(const std::string& text, const std::string& place) {
  try {
    return dtype_from_name(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::corrupt, place, error.place() + ": " + error.detail());
  }
}

SafetensorsEntry parse_entry(const std::string& name, const Json& json, const std::string& file) {
  const std::string place = fmt::format("{}: entry \"{}\"", file, name);
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = parse_dtype(string_member(json, "dtype", place), place);
  for (const Json& extent : array_member(json, "shape", place)) {
    const std::uint64_t value = unsigned_value(extent, "shape", place);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      throw Error(ErrorKind::corrupt, place, "the shape overflows 63 bits");
    }
    entry.shape.push_back(static_cast<std::int64_t>(value));
  }
  const Json& offsets = array_member(json, "data_offsets", place);
  if (offsets.size() != 2) {
    throw Error(ErrorKind::corrupt, place, "\"data_offsets\": expected two integers");
  }
  entry.begin = unsigned_value(offsets[0], "data_offsets", place);
  entry.end = unsigned_value(offsets[1], "data_offsets", place);
  const std::uint64_t expected = shape_bytes(entry.shape, entry.dtype, place);
  if (entry.end < entry.begin || entry.end - entry.begin != expected) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("data_offsets [{}, {}) do not hold the {} bytes of the shape",
                            entry.begin, entry.end, expected));
  }
  return entry;
}

std::map<std::string, std::string> parse_metadata(const Json& json, const std::string& file) {
  const std::string place = fmt::format("{}: {}", file, metadata_key);
  if (!json.is_object()) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("expected an object, found {}", json.type_name()));
  }
  std::map<std::string, std::string> metadata;
  for (const auto& item : json.items()) {
    metadata[item.key()] = string_member(json, item.key().c_str(), place);
  }
  return metadata;
}

// Entries ordered by begin must tile [0, data_bytes).
void check_tiling(const std::vector<SafetensorsEntry>& entries, std::uint64_t data_bytes,
                  const std::string& file) {
  std::uint64_t expected = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != expected) {
      throw Error(ErrorKind::corrupt, fmt::format("{}: entry \"{}\"", file, entry.name),
                  fmt::format("data_offsets begin at {}, expected {} ({})", entry.begin, expected,
                              entry.begin < expected ? "an overlap" : "a hole"));
    }
    expected = entry.end;
  }
  if (expected != data_bytes) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("the entries end at byte {} of the data, which has {} bytes", expected,
                            data_bytes));
  }
}

// The JSON text of the header, its length prefix checked.
std::string_view header_text(std::span<const std::byte> head, std::uint64_t file_bytes,
                             const std::string& file) {
  if (head.size() < prefix_bytes || file_bytes < prefix_bytes) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("{} bytes are too few for a safetensors file", file_bytes));
  }
  std::uint64_t length = 0;
  for (int i = prefix_bytes - 1; i >= 0; --i) {
    length = length << 8 | std::to_integer<std::uint64_t>(head[i]);
  }
  if (length > max_header_bytes) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("a header of {} bytes, expected at most {}", length, max_header_bytes));
  }
  if (length > file_bytes - prefix_bytes || length > head.size() - prefix_bytes) {
    throw Error(ErrorKind::corrupt, file,
                fmt::format("a header of {} bytes runs past the end of the file", length));
  }
  const std::string_view text(reinterpret_cast<const char*>(head.data()) + prefix_bytes, length);
  if (!text.starts_with('{')) {
    throw Error(ErrorKind::corrupt, file, "the header does not begin with '{'");
  }
  return text;
}

}  // namespace

const SafetensorsEntry* SafetensorsHeader::find(std::string_view name) const {
  const auto found =
      std::find_if(entries.begin(), entries.end(),
                   [&](const SafetensorsEntry& entry) { return entry.name == name; });
  return found == entries.end() ? nullptr : &*found;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> head, std::uint64_t file_bytes,
                                    const std::string& file) {
  const std::string_view text = header_text(head, file_bytes, file);
  SafetensorsHeader header;
  header.data_begin = prefix_bytes + text.size();
  const Json json = parse_json(text, file + ": header", ErrorKind::corrupt);
  for (const auto& item : json.items()) {
    if (item.key() == metadata_key) {
      header.metadata = parse_metadata(item.value(), file);
    } else {
      header.entries.push_back(parse_entry(item.key(), item.value(), file));
    }
  }
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  check_tiling(header.entries, file_bytes - header.data_begin, file);
  return header;
}

std::string safetensors_head(std::vector<SafetensorsEntry>& entries,
                             const std::map<std::string, std::string>& metadata) {
  Json json = Json::object();
  if (!metadata.empty()) json[metadata_key] = metadata;
  auto& members = json.get_ref<Json::object_t&>();  // appended to: inserting would search
  std::uint64_t at = 0;
  std::set<std::string_view> names;
  for (SafetensorsEntry& entry : entries) {
    SP_CHECK(entry.name != metadata_key, entry.name);
    SP_CHECK(names.insert(entry.name).second, "entry " + entry.name + " twice");
    entry.begin = at;
    at += static_cast<std::uint64_t>(element_count(entry.shape)) * size_of(entry.dtype);
    entry.end = at;
    members.emplace_back(entry.name, Json{{"dtype", name(entry.dtype)},
                                          {"shape", entry.shape},
                                          {"data_offsets", {entry.begin, entry.end}}});
  }
  std::string text = json.dump();
  text.append((prefix_bytes - text.size() % prefix_bytes) % prefix_bytes, ' ');
  std::string head;
  for (std::size_t i = 0; i < prefix_bytes; ++i) head += static_cast<char>(text.size() >> 8 * i);
  return head + text;
}

}  // namespace shardproof

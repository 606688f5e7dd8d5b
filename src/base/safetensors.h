// safetensors: the file format (8-byte little-endian header length, JSON header, data), read with
// distrust: a header above max_header_bytes, an unknown dtype, ranges that overlap, leave a hole or
// run past the file, a shape that does not match its range or overflows are Error corrupt naming
// the file and the entry, before any allocation of the claimed size.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/piece.h"

namespace shardproof {

struct SafetensorsEntry {
  std::string name;
  Dtype dtype = Dtype::f32;
  Shape shape;
  std::uint64_t begin = 0;  // bytes from the start of the data section
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;        // ordered by begin
  std::map<std::string, std::string> metadata;  // "__metadata__"
  std::uint64_t data_begin = 0;                 // file offset of the data section

  const SafetensorsEntry* find(std::string_view name) const;
};

constexpr std::uint64_t max_header_bytes = 100u << 20;

// `head` is the start of the file (at least the whole header), `file_bytes` its full size.
SafetensorsHeader parse_safetensors(std::span<const std::byte> head, std::uint64_t file_bytes,
                                    const std::string& file);

// The length prefix and JSON header for entries laid end to end in the given order (begin/end are
// computed). The header is padded with spaces to a multiple of 8 bytes.
std::string safetensors_head(std::vector<SafetensorsEntry>& entries,
                             const std::map<std::string, std::string>& metadata);

}  // namespace shardproof

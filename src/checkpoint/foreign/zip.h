// zip: the archives of torch.save, records stored as they are, read strictly by their central
// directory (zip64, too). Each record is compared with its local header and its CRC. Thread rule:
// pure.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "checkpoint/foreign/checkpoint.h"

namespace shardproof::foreign {

struct ZipRecord {
  std::uint64_t begin = 0;  // of its bytes, in the archive
  std::uint64_t end = 0;
  std::uint32_t crc = 0;
  bool whole = true;  // its bytes have that CRC
};

bool looks_like_zip(std::span<const std::byte> archive);

// By name. Error corrupt naming `origin` where the directory cannot be followed (cut short, a
// record outside of the archive, compressed); a record whose bytes are others than its CRC says is
// left to the caller, who knows what it is.
std::map<std::string, ZipRecord> read_zip(std::span<const std::byte> archive,
                                          const std::string& origin);

}  // namespace shardproof::foreign

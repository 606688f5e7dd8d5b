// crc32c: the CRC of TFRecord files (RFC 3720, appendix B.4) and its masked form. Thread rule:
// pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shardproof {

std::uint32_t crc32c(std::span<const std::byte> bytes);

// As records store it: a CRC over bytes that hold CRCs would be weak.
std::uint32_t masked_crc32c(std::span<const std::byte> bytes);

}  // namespace shardproof

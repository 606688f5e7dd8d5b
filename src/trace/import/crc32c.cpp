// crc32c: byte by byte from a table; event files are small.
#include "trace/import/crc32c.h"

#include <array>

namespace shardproof {
namespace {

constexpr std::uint32_t polynomial = 0x82f63b78;  // Castagnoli, bits reversed

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1) != 0 ? polynomial : 0);
    table[i] = value;
  }
  return table;
}

constexpr std::array<std::uint32_t, 256> table = make_table();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes) {
  std::uint32_t state = 0xffffffff;
  for (const std::byte each : bytes) {
    state = table[(state ^ static_cast<std::uint32_t>(each)) & 0xff] ^ (state >> 8);
  }
  return ~state;
}

std::uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

}  // namespace shardproof

// checksum: 64 bits over bytes, quick enough for state and traffic (some GB/s). A change of one
// aligned 8-byte word is always seen, any other with a chance of 2^-64 to be missed. No digest:
// whoever wants to can find other bytes with the same sum. Thread rule: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardproof {

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed = 0);

// A sum of integers of `width` bytes (1, 4 or 8) with odd weights, modulo 2^(8 width): of the sum
// of arrays it is the sum of theirs, and one flipped bit is always seen.
std::uint64_t linear_checksum(const void* data, std::size_t count, std::size_t width);

}  // namespace shardproof

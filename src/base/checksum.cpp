// checksum: four lanes, each a chain of steps that are one-to-one in the word they take.
#include "base/checksum.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace shardproof {
namespace {

// Odd, from the digits of pi and e: multiplying by them is one-to-one.
constexpr std::uint64_t first_factor = 0x243f6a8885a308d3, second_factor = 0xb7e151628aed2a6b;
constexpr int turn = 29;

std::uint64_t step(std::uint64_t state, std::uint64_t word) {
  word *= first_factor;
  word ^= word >> turn;
  return std::rotl(state ^ word, turn) * second_factor;
}

std::uint64_t mix(std::uint64_t word) {
  constexpr int half = 32;
  word = (word ^ (word >> half)) * second_factor;
  return word ^ (word >> turn);
}

std::uint64_t mask_of(std::size_t width) {
  constexpr std::size_t bits_of_a_byte = 8;
  return width == sizeof(std::uint64_t) ? ~std::uint64_t{0}
                                        : (std::uint64_t{1} << (width * bits_of_a_byte)) - 1;
}

}  // namespace

std::uint64_t checksum(const void* data, std::size_t bytes, std::uint64_t seed) {
  constexpr std::size_t width = sizeof(std::uint64_t), lanes = 4;
  const auto* at = static_cast<const unsigned char*>(data);
  std::array<std::uint64_t, lanes> state{seed, seed + 1, seed + 2, seed + 3};
  std::size_t left = bytes;
  for (; left >= lanes * width; left -= lanes * width, at += lanes * width) {
    std::array<std::uint64_t, lanes> words;
    std::memcpy(words.data(), at, sizeof words);
    for (std::size_t i = 0; i < lanes; ++i) state[i] = step(state[i], words[i]);
  }
  for (std::size_t lane = 0; left > 0; ++lane) {
    const std::size_t some = left < width ? left : width;
    std::uint64_t word = 0;
    std::memcpy(&word, at, some);
    state[lane] = step(state[lane], word);
    at += some;
    left -= some;
  }
  std::uint64_t out = bytes;
  for (const std::uint64_t lane : state) out = mix(out ^ mix(lane)) + first_factor;
  return out;
}

std::uint64_t linear_checksum(const void* data, std::size_t count, std::size_t width) {
  SP_CHECK(width == 1 || width == 4 || width == 8, "integers of 1, 4 or 8 bytes");
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < count; ++i, at += width) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, width);
    sum += (mix(i) | 1) * value;
  }
  return sum & mask_of(width);
}

}  // namespace shardproof

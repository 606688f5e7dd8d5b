// philox: ten rounds, and how (purpose, stream, step, index) become a counter.
#include "base/philox.h"

#include <cmath>
#include <numbers>

#include "base/check.h"

namespace shardproof {
namespace {

constexpr std::uint32_t multiplier_0 = 0xD2511F53;
constexpr std::uint32_t multiplier_1 = 0xCD9E8D57;
constexpr std::uint32_t weyl_0 = 0x9E3779B9;
constexpr std::uint32_t weyl_1 = 0xBB67AE85;
constexpr int rounds = 10;

// The purpose takes the top byte of the block number, so distinct (purpose, stream, step, block)
// are distinct counters and can never share a value by accident.
constexpr int purpose_shift = 24;
constexpr std::uint64_t max_block = std::uint64_t{1} << (32 + purpose_shift);

std::uint64_t join(std::uint32_t high, std::uint32_t low) {
  return std::uint64_t{high} << 32 | low;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t product_0 = std::uint64_t{multiplier_0} * counter[0];
    const std::uint64_t product_1 = std::uint64_t{multiplier_1} * counter[2];
    counter = {static_cast<std::uint32_t>(product_1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product_1),
               static_cast<std::uint32_t>(product_0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product_0)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return counter;
}

Random::Random(std::uint64_t seed, Purpose purpose, std::uint32_t stream, std::uint32_t step)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      purpose_(static_cast<std::uint32_t>(purpose)),
      stream_(stream),
      step_(step) {
  SP_CHECK_LT(purpose_, 256u);
}

std::array<std::uint32_t, 4> Random::block(std::uint64_t block_index) const {
  SP_CHECK_LT(block_index, max_block);
  const auto high = static_cast<std::uint32_t>(block_index >> 32);
  return philox4x32(
      {static_cast<std::uint32_t>(block_index), high | purpose_ << purpose_shift, stream_, step_},
      key_);
}

std::uint32_t Random::bits(std::uint64_t index) const {
  return block(index / 4)[index % 4];
}

double Random::uniform(std::uint64_t index) const {
  return std::ldexp(bits(index), -32);
}

float Random::normal(std::uint64_t index) const {
  const auto words = block(index / 2);
  // (0, 1] with 53 bits: the logarithm is finite.
  const double radius_draw =
      std::ldexp(static_cast<double>((join(words[1], words[0]) >> 11) + 1), -53);
  const double angle_draw = std::ldexp(static_cast<double>(join(words[3], words[2]) >> 11), -53);
  const double radius = std::sqrt(-2.0 * std::log(radius_draw));
  const double angle = 2.0 * std::numbers::pi * angle_draw;
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

std::uint64_t Random::below(std::uint64_t bound, std::uint64_t index) const {
  SP_CHECK(bound > 0, "bound 0");
  const auto words = block(index / 2);
  const std::size_t at = index % 2 * 2;
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{join(words[at + 1], words[at])} * bound >> 64);
}

std::uint32_t stream_id(const char* text) {
  std::uint32_t hash = 2166136261u;
  for (; *text != '\0'; ++text) {
    hash = (hash ^ static_cast<unsigned char>(*text)) * 16777619u;
  }
  return hash;
}

}  // namespace shardproof

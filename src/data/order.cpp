// order: the Feistel network and the walk.
#include "data/order.h"

#include <fmt/format.h>

#include <limits>

#include "base/check.h"
#include "data/loader.h"

namespace shardproof {
namespace {

// Small domains mix badly: a half of one or two bits needs more rounds than the usual four.
constexpr std::uint32_t round_count = 8;

}  // namespace

EpochOrder::EpochOrder(std::int64_t size, std::uint64_t seed, std::int64_t epoch)
    : size_(static_cast<std::uint64_t>(size)) {
  SP_CHECK(size > 0, fmt::format("size {}", size));
  SP_CHECK(epoch >= 0 && epoch <= std::numeric_limits<std::uint32_t>::max(),
           fmt::format("epoch {}", epoch));
  while (half_bits_ < 31 && (std::uint64_t{1} << (2 * half_bits_)) < size_) ++half_bits_;
  for (std::uint32_t round = 0; round < round_count; ++round) {
    rounds_.emplace_back(seed, Purpose::sample_order, round, static_cast<std::uint32_t>(epoch));
  }
}

std::uint64_t EpochOrder::permute(std::uint64_t value) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = value >> half_bits_;
  std::uint64_t right = value & mask;
  for (const Random& round : rounds_) {
    const std::uint64_t mixed = left ^ (round.bits(right) & mask);
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

std::int64_t EpochOrder::at(std::int64_t index) const {
  auto value = static_cast<std::uint64_t>(index);
  SP_CHECK(value < size_, fmt::format("index {} of {}", index, size_));
  // The walk ends: it follows a cycle of the permutation, which comes back to `index` itself.
  do value = permute(value);
  while (value >= size_);
  return static_cast<std::int64_t>(value);
}

std::vector<std::int64_t> epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const EpochOrder order(size, seed, epoch);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) ids[static_cast<std::size_t>(i)] = order.at(i);
  return ids;
}

}  // namespace shardproof

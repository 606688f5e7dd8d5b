// ctest: unit timeout=30
#include "base/checksum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <vector>

namespace shardproof {
namespace {

std::vector<unsigned char> counted(std::size_t bytes) {
  std::vector<unsigned char> out(bytes);
  std::iota(out.begin(), out.end(), static_cast<unsigned char>(1));
  return out;
}

TEST(Checksum, EveryFlippedBitOfEveryLengthIsSeen) {
  for (std::size_t bytes = 0; bytes <= 75; ++bytes) {
    std::vector<unsigned char> data = counted(bytes);
    const std::uint64_t right = checksum(data.data(), bytes);
    std::set<std::uint64_t> seen{right};
    for (std::size_t bit = 0; bit < bytes * 8; ++bit) {
      data[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
      seen.insert(checksum(data.data(), bytes));
      data[bit / 8] ^= static_cast<unsigned char>(1U << (bit % 8));
    }
    EXPECT_EQ(seen.size(), bytes * 8 + 1) << bytes;
  }
}

TEST(Checksum, LengthOrderAndSeedCount) {
  const std::vector<unsigned char> zeros(64);
  std::set<std::uint64_t> seen;
  for (std::size_t bytes = 0; bytes <= zeros.size(); ++bytes) {
    seen.insert(checksum(zeros.data(), bytes));
  }
  EXPECT_EQ(seen.size(), zeros.size() + 1);
  std::vector<unsigned char> data = counted(64);
  const std::uint64_t right = checksum(data.data(), data.size());
  EXPECT_NE(right, checksum(data.data(), data.size(), 1));
  std::swap_ranges(data.begin(), data.begin() + 8, data.begin() + 8);
  EXPECT_NE(right, checksum(data.data(), data.size()));
}

TEST(Checksum, LinearSumsAddAndSeeEveryBit) {
  std::vector<std::int32_t> a(37), b(37), sum(37);
  for (std::size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<std::int32_t>(0x40000000 + i * 77);
    b[i] = static_cast<std::int32_t>(0x30000000 - i * 991);
    sum[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(a[i]) +
                                       static_cast<std::uint32_t>(b[i]));  // wraps
  }
  const auto of = [](const std::vector<std::int32_t>& v) {
    return linear_checksum(v.data(), v.size(), 4);
  };
  const std::uint64_t right = (of(a) + of(b)) & 0xffffffffU;
  EXPECT_EQ(of(sum), right);
  for (std::size_t bit = 0; bit < sum.size() * 32; ++bit) {
    sum[bit / 32] ^= static_cast<std::int32_t>(1U << (bit % 32));
    EXPECT_NE(of(sum), right) << bit;
    sum[bit / 32] ^= static_cast<std::int32_t>(1U << (bit % 32));
  }
}

}  // namespace
}  // namespace shardproof

// ctest: unit
// block_digests: what OpenSSL says of each block, whatever their number, size and place.
#include "checkpoint/block_digests.h"

#include <gtest/gtest.h>

#include "base/philox.h"

namespace shardproof {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  const Random random(7, Purpose::test, 0);
  std::vector<std::byte> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<std::byte>(random.bits(i));
  return out;
}

void expect_same(std::span<const std::byte> bytes, std::size_t block_bytes) {
  const std::vector<Digest> found = block_digests(bytes, block_bytes);
  ASSERT_EQ(found.size(), (bytes.size() + block_bytes - 1) / block_bytes);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t at = i * block_bytes;
    EXPECT_EQ(found[i].hex(),
              sha256(bytes.data() + at, std::min(block_bytes, bytes.size() - at)).hex())
        << "block " << i << " of " << bytes.size() << " bytes in blocks of " << block_bytes;
  }
}

TEST(BlockDigests, AreThoseOfEachBlockAlone) {
  const std::vector<std::byte> bytes = random_bytes(40000);
  const std::span<const std::byte> all(bytes);
  for (const std::size_t block : {64u, 128u, 1024u, 2048u, 4096u, 8192u}) {
    for (const std::size_t count : {0u, 1u, 2u, 3u, 4u, 7u}) {
      if (count * block + 1 > all.size()) continue;
      expect_same(all.first(count * block), block);
      expect_same(all.subspan(1, count * block), block);
      expect_same(all.first(count * block + 1), block);
      if (count > 0) expect_same(all.subspan(3, count * block - 1), block);
    }
  }
}

TEST(BlockDigests, BlocksOfAnyLength) {
  const std::vector<std::byte> bytes = random_bytes(1000);
  for (const std::size_t block : {1u, 55u, 56u, 63u, 65u, 100u, 999u, 5000u}) {
    expect_same(bytes, block);
  }
}

// A digest that is known from elsewhere: both could be wrong alike.
TEST(BlockDigests, OfZeros) {
  const std::vector<std::byte> zeros(128);
  const std::vector<Digest> found = block_digests(zeros, 64);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].hex(), "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
  EXPECT_EQ(found[1], found[0]);
}

}  // namespace
}  // namespace shardproof

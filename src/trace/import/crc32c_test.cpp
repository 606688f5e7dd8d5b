// ctest: unit
#include "trace/import/crc32c.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace shardproof {
namespace {

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// RFC 3720, appendix B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, HasTheKnownValues) {
  std::string rising, falling;
  for (char i = 0; i < 32; ++i) rising += i;
  for (char i = 31; i >= 0; --i) falling += i;
  EXPECT_EQ(crc32c(bytes(std::string(32, '\0'))), 0x8a9136aau);
  EXPECT_EQ(crc32c(bytes(std::string(32, '\xff'))), 0x62a8ab43u);
  EXPECT_EQ(crc32c(bytes(rising)), 0x46dd794eu);
  EXPECT_EQ(crc32c(bytes(falling)), 0x113fdb5cu);
  EXPECT_EQ(crc32c(bytes("123456789")), 0xe3069283u);
  EXPECT_EQ(crc32c({}), 0u);
}

// The first twelve bytes of every event file that says "brain.Event:2": a length of 24 and this.
TEST(Crc32c, MasksAsRecordsDo) {
  const std::string length("\x18\0\0\0\0\0\0\0", 8);
  EXPECT_EQ(masked_crc32c(bytes(length)), 0x224b7fa3u);
}

}  // namespace
}  // namespace shardproof

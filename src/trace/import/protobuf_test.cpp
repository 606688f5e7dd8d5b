// ctest: unit
#include "trace/import/protobuf.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>

#include "base/expect_error.h"

namespace shardproof {
namespace {

using Wire = ProtobufField::Wire;

const std::string path = "file";

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Reads all fields; the number of them.
int read_all(std::string_view message) {
  ProtobufReader reader(bytes(message), path, 100);
  int count = 0;
  while (reader.next()) ++count;
  return count;
}

void expect_damage(const std::string& message, std::string_view place, std::string_view words) {
  expect_error(ErrorKind::corrupt, {place, words}, [&] { read_all(message); });
}

RC_GTEST_PROP(Protobuf, ReadsWhatItWrote, (std::uint64_t number, double real, std::string text)) {
  std::string message;
  put_varint_field(message, 2, number);
  put_double_field(message, 1, real);
  put_float_field(message, 536870911, 1.5f);
  put_bytes_field(message, 16, text);
  ProtobufReader reader(bytes(message), path, 0);
  const auto a = reader.next(), b = reader.next(), c = reader.next(), d = reader.next();
  RC_ASSERT(a && b && c && d && !reader.next());
  RC_ASSERT(a->wire == Wire::varint && a->number == 2u && a->bits == number);
  RC_ASSERT(b->wire == Wire::fixed64 && b->bits == std::bit_cast<std::uint64_t>(real));
  RC_ASSERT(c->wire == Wire::fixed32 && c->number == 536870911u);
  RC_ASSERT(c->bits == std::bit_cast<std::uint32_t>(1.5f));
  RC_ASSERT(d->wire == Wire::bytes && d->number == 16u && d->text() == text);
}

TEST(Protobuf, RefusesWhatDoesNotFit) {
  using namespace std::string_literals;
  EXPECT_EQ(read_all(""), 0);
  expect_damage("\x12\x05ok"s, "file: byte 102", "a field of 5 bytes in a message of which 2");
  expect_damage("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s, "file: byte 111", "are left");
  expect_damage("\x15ok!"s, "file: byte 101", "a field of 4 bytes in a message of which 3");
  expect_damage("\x11ok!"s, "file: byte 101", "a field of 8 bytes");
  expect_damage("\x10"s, "file: byte 101", "a field of 1 bytes in a message of which 0");
  expect_damage("\x10" + std::string(10, '\xff') + "\x01", "file", "more than 64 bits");
  expect_damage("\x10" + std::string(9, '\xff') + "\x02", "file", "more than 64 bits");
  EXPECT_EQ(read_all("\x10" + std::string(9, '\xff') + "\x01"), 1) << "2^64 - 1";
  expect_damage("\x02\x01x"s, "file", "field 0");
  expect_damage("\x0b"s, "file: byte 101", "wire type 3");
}

TEST(Protobuf, TakesNoNumberForAMessage) {
  std::string message;
  put_varint_field(message, 5, 7);
  ProtobufReader reader(bytes(message), path, 100);
  const auto field = reader.next();
  ASSERT_TRUE(field);
  expect_error(ErrorKind::corrupt, {"file: byte 100", "field 5 is a number"},
               [&] { ProtobufReader(*field, path); });
}

}  // namespace
}  // namespace shardproof

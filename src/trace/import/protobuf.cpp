// protobuf: see protobuf.h.
#include "trace/import/protobuf.h"

#include <fmt/format.h>

#include <bit>

#include "base/error.h"

namespace shardproof {
namespace {

std::uint64_t little(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  }
  return value;
}

void put_little(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t number, int wire) {
  put_varint(out, (static_cast<std::uint64_t>(number) << 3) | static_cast<std::uint64_t>(wire));
}

}  // namespace

ProtobufReader::ProtobufReader(std::span<const std::byte> message, const std::string& path,
                               std::uint64_t offset)
    : rest_(message), path_(path), at_(offset) {}

ProtobufReader::ProtobufReader(const ProtobufField& field, const std::string& path)
    : ProtobufReader(field.bytes, path, field.bytes_offset) {
  if (field.wire == ProtobufField::Wire::bytes) return;
  at_ = field.offset;
  fail(fmt::format("field {} is a number; expected a message", field.number));
}

void ProtobufReader::fail(const std::string& what) const {
  throw Error(ErrorKind::corrupt, fmt::format("{}: byte {}", path_, at_), what);
}

std::span<const std::byte> ProtobufReader::take(std::uint64_t count) {
  if (count > rest_.size()) {
    fail(fmt::format("a field of {} bytes in a message of which {} are left", count, rest_.size()));
  }
  const auto taken = rest_.first(static_cast<std::size_t>(count));
  rest_ = rest_.subspan(taken.size());
  at_ += taken.size();
  return taken;
}

std::uint64_t ProtobufReader::varint() {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    const auto each = static_cast<std::uint64_t>(take(1).front());
    if (shift == 63 && each > 1) break;
    value |= (each & 0x7f) << shift;
    if (each < 0x80) return value;
  }
  fail("a number of more than 64 bits");
}

std::optional<ProtobufField> ProtobufReader::next() {
  if (rest_.empty()) return std::nullopt;
  ProtobufField field;
  field.offset = at_;
  const std::uint64_t key = varint();
  if ((key >> 3) == 0 || (key >> 3) >= (1u << 29)) fail(fmt::format("field {}", key >> 3));
  field.number = static_cast<std::uint32_t>(key >> 3);
  switch (key & 7) {
    case 0:
      field.wire = ProtobufField::Wire::varint;
      field.bits = varint();
      return field;
    case 1:
      field.wire = ProtobufField::Wire::fixed64;
      field.bits = little(take(8));
      return field;
    case 2: {
      field.wire = ProtobufField::Wire::bytes;
      const std::uint64_t length = varint();
      field.bytes_offset = at_;
      field.bytes = take(length);
      return field;
    }
    case 5:
      field.wire = ProtobufField::Wire::fixed32;
      field.bits = little(take(4));
      return field;
    default:
      fail(fmt::format("field {} has wire type {}; expected 0, 1, 2 or 5", field.number, key & 7));
  }
}

void put_varint_field(std::string& message, std::uint32_t number, std::uint64_t value) {
  put_key(message, number, 0);
  put_varint(message, value);
}

void put_float_field(std::string& message, std::uint32_t number, float value) {
  put_key(message, number, 5);
  put_little(message, std::bit_cast<std::uint32_t>(value), 4);
}

void put_double_field(std::string& message, std::uint32_t number, double value) {
  put_key(message, number, 1);
  put_little(message, std::bit_cast<std::uint64_t>(value), 8);
}

void put_bytes_field(std::string& message, std::uint32_t number, std::string_view bytes) {
  put_key(message, number, 2);
  put_varint(message, bytes.size());
  message += bytes;
}

}  // namespace shardproof

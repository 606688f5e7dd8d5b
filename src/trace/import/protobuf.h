// protobuf: the wire format, as much as event files need: fields one after another, lengths checked
// before use; groups, which nothing writes any more, are refused. Thread rule: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shardproof {

struct ProtobufField {
  enum class Wire { varint, fixed64, bytes, fixed32 };
  std::uint32_t number = 0;
  Wire wire = Wire::varint;
  std::uint64_t offset = 0;          // of its key in the file
  std::uint64_t bits = 0;            // varint, fixed64 or fixed32
  std::span<const std::byte> bytes;  // of Wire::bytes
  std::uint64_t bytes_offset = 0;    // of those in the file

  std::string_view text() const {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
};

class ProtobufReader {
 public:
  // `path` and `offset` say where in which file the message lies.
  ProtobufReader(std::span<const std::byte> message, const std::string& path, std::uint64_t offset);
  ProtobufReader(const ProtobufField& field, const std::string& path);  // a message inside

  // The next field, or nothing at the end. Error corrupt naming file and offset.
  std::optional<ProtobufField> next();

 private:
  std::uint64_t varint();
  std::span<const std::byte> take(std::uint64_t count);
  [[noreturn]] void fail(const std::string& what) const;

  std::span<const std::byte> rest_;
  const std::string& path_;
  std::uint64_t at_;  // of rest_ in the file
};

// Appends fields to a message that is being written.
void put_varint_field(std::string& message, std::uint32_t number, std::uint64_t value);
void put_float_field(std::string& message, std::uint32_t number, float value);
void put_double_field(std::string& message, std::uint32_t number, double value);
void put_bytes_field(std::string& message, std::uint32_t number, std::string_view bytes);

}  // namespace shardproof

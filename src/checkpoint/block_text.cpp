// block_text: see block_text.h.
#include "checkpoint/block_text.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/error.h"

namespace shardproof {
namespace {

constexpr std::size_t hex_digits = 64;
constexpr std::uint8_t no_digit = 0xff;

constexpr std::array<std::uint8_t, 256> digit_values() {
  std::array<std::uint8_t, 256> values{};
  values.fill(no_digit);
  for (std::uint8_t i = 0; i < 10; ++i) values['0' + i] = i;
  for (std::uint8_t i = 0; i < 6; ++i) values['a' + i] = static_cast<std::uint8_t>(10 + i);
  return values;
}

}  // namespace

std::string blocks_text(std::span<const Digest> blocks) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text(hex_digits * blocks.size(), '\0');
  char* out = text.data();
  for (const Digest& block : blocks) {
    for (const std::uint8_t byte : block.bytes) {
      *out++ = digits[byte >> 4];
      *out++ = digits[byte & 15];
    }
  }
  return text;
}

std::vector<Digest> blocks_from_text(std::string_view text, const std::string& place) {
  static constexpr std::array<std::uint8_t, 256> values = digit_values();
  if (text.size() % hex_digits != 0) {
    throw Error(ErrorKind::corrupt, place,
                fmt::format("\"blocks\" holds {} hex digits; expected 64 a block", text.size()));
  }
  std::vector<Digest> blocks(text.size() / hex_digits);
  const char* from = text.data();
  std::uint8_t seen = 0;  // a value above 15 is no digit
  for (Digest& block : blocks) {
    for (std::uint8_t& byte : block.bytes) {
      const std::uint8_t high = values[static_cast<std::uint8_t>(from[0])];
      const std::uint8_t low = values[static_cast<std::uint8_t>(from[1])];
      seen = static_cast<std::uint8_t>(seen | high | low);
      byte = static_cast<std::uint8_t>(high << 4 | low);
      from += 2;
    }
  }
  if (seen > 15) {
    throw Error(ErrorKind::corrupt, place, "\"blocks\": expected 64 lower-case hex digits a block");
  }
  return blocks;
}

BlocksApart take_blocks_apart(std::string_view text) {
  constexpr std::string_view key = "\"blocks\":\"";
  BlocksApart out;
  std::size_t done = 0;
  for (;;) {
    const std::size_t found = text.find(key, done);
    if (found == text.npos) break;
    const std::size_t begin = found + key.size();
    const std::size_t end = text.find('"', begin);
    if (end == text.npos) break;
    out.json += text.substr(done, begin - done);
    out.blocks.push_back(text.substr(begin, end - begin));
    done = end;
  }
  out.json += text.substr(done);
  return out;
}

}  // namespace shardproof

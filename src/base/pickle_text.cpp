// pickle_text: UTF-8 by its definition (no surrogates, nothing overlong), and two ways to escape.
#include "base/pickle_text.h"

#include <charconv>
#include <cstdint>

namespace shardproof {

namespace {

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

// The code point at the begin of `digits`, `count` hex digits; nothing: it is none.
std::optional<std::uint32_t> code_of(std::string_view digits, std::size_t count) {
  if (digits.size() < count) return std::nullopt;
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + count, code, 16);
  if (error != std::errc() || end != digits.data() + count) return std::nullopt;
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code > 0x10ffff || surrogate) return std::nullopt;
  return code;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size();) {
    const auto first = static_cast<unsigned char>(bytes[i]);
    const std::size_t length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) return false;
    if (bytes.size() - i < length) return false;
    std::uint32_t code = length == 1 ? first : first & (0xffu >> (length + 1));
    for (std::size_t k = 1; k < length; ++k) {
      const auto next = static_cast<unsigned char>(bytes[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      code = code << 6 | (next & 0x3f);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    if (overlong || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    i += length;
  }
  return true;
}

std::string text_of_bytes(std::string_view bytes) {
  if (is_utf8(bytes)) return std::string(bytes);
  std::string text;
  for (const char byte : bytes) append_utf8(text, static_cast<unsigned char>(byte));
  return text;
}

std::optional<std::string> unquoted(std::string_view quoted) {
  if (quoted.size() < 2 || quoted.front() != quoted.back()) return std::nullopt;
  const char quote = quoted.front();
  if (quote != '\'' && quote != '"') return std::nullopt;
  quoted = quoted.substr(1, quoted.size() - 2);
  std::string text;
  for (std::size_t i = 0; i < quoted.size(); ++i) {
    if (quoted[i] == quote) return std::nullopt;
    if (quoted[i] != '\\') {
      text += quoted[i];
      continue;
    }
    if (++i == quoted.size()) return std::nullopt;
    switch (quoted[i]) {
      case 'n':
        text += '\n';
        break;
      case 'r':
        text += '\r';
        break;
      case 't':
        text += '\t';
        break;
      case '\\':
      case '\'':
      case '"':
        text += quoted[i];
        break;
      case 'x': {
        const auto code = code_of(quoted.substr(i + 1), 2);
        if (!code) return std::nullopt;
        text += static_cast<char>(*code);
        i += 2;
        break;
      }
      default:
        return std::nullopt;
    }
  }
  return text;
}

std::optional<std::string> unescaped_unicode(std::string_view escaped) {
  std::string text;
  for (std::size_t i = 0; i < escaped.size(); ++i) {
    const bool escape = escaped[i] == '\\' && i + 1 < escaped.size() &&
                        (escaped[i + 1] == 'u' || escaped[i + 1] == 'U');
    if (!escape) {
      append_utf8(text, static_cast<unsigned char>(escaped[i]));
      continue;
    }
    const std::size_t digits = escaped[i + 1] == 'u' ? 4 : 8;
    const auto code = code_of(escaped.substr(i + 2), digits);
    if (!code) return std::nullopt;
    append_utf8(text, *code);
    i += 1 + digits;
  }
  return text;
}

}  // namespace shardproof

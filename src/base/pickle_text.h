// pickle_text: the texts of pickles: as Python quotes them in protocol 0, and what is valid UTF-8.
// Internal to pickle. Thread rule: pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardproof {

bool is_utf8(std::string_view bytes);
// As it is where it is UTF-8, else each byte as the character of that number.
std::string text_of_bytes(std::string_view bytes);
// What stands between quotes, with the escapes of Python's repr; nothing: it is not quoted so.
std::optional<std::string> unquoted(std::string_view quoted);
// Python's raw-unicode-escape: \uXXXX and \UXXXXXXXX, and bytes that are characters by number.
std::optional<std::string> unescaped_unicode(std::string_view text);

}  // namespace shardproof

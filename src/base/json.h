// json: strict parsing (a duplicate key, a comment or trailing text is an Error naming the line)
// and the exact spelling of floats: the bits of a double as 16 hex digits, big-endian.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace shardproof {

using Json = nlohmann::ordered_json;  // keys keep their order: output is byte-reproducible

// `origin` is a file name (or "command line") used in the Error, which is of the given kind and
// counts lines from `first_line`. Nesting deeper than 64 is refused.
Json parse_json(std::string_view text, const std::string& origin,
                ErrorKind kind = ErrorKind::bad_input, int first_line = 1);

std::string bits_hex(double value);
double from_bits_hex(std::string_view hex);  // Error bad_input unless 16 hex digits

// A member that must be there with the given type: Error corrupt naming `place` and `key`.
const Json& member(const Json& object, const char* key, const std::string& place);
std::string string_member(const Json& object, const char* key, const std::string& place);
std::int64_t integer_member(const Json& object, const char* key, const std::string& place);

}  // namespace shardproof

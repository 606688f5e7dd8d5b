// pickle: Python pickles read as data, never as a program. Protocols 0 to 5; only what makes None,
// bool, int, float, str, bytes, list, tuple, dict and set, and the memo. What names, calls or
// builds an object (GLOBAL, REDUCE, BUILD, ...) is refused by its name, with its offset; nothing is
// ever executed or imported. As JSON: tuples and sets are arrays, bytes are text (UTF-8, else each
// byte as one character), keys are texts (integers in decimal). Not kept: that two places share one
// object. Thread rule: pure.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace shardproof {

// Error bad_input naming `origin` and the offset. Refused as well: nesting deeper than 64 (or a
// value that holds itself), more than 2 million values or 1 GiB of text (shared ones counted at
// each place), integers of more than 64 bits, a key twice, and bytes after the end.
Json parse_pickle(std::string_view bytes, const std::string& origin);

// Protocol 2. An array under the key `tuple_key` becomes a tuple.
std::string to_pickle(const Json& value, std::string_view tuple_key = {});

}  // namespace shardproof

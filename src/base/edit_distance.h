// edit_distance: how far a word is from another (Levenshtein 1966): the fewest insertions, removals
// and replacements of one byte. For "the nearest known one is". Thread rule: pure.
#pragma once

#include <string_view>

namespace shardproof {

int edit_distance(std::string_view a, std::string_view b);

}  // namespace shardproof

// leg_output: what is worth saying of all that a program printed. Thread rule: pure but for the
// file that is read.
#pragma once

#include <string>

namespace shardproof {

// The text up to `bytes`, cut between characters; bytes that are not UTF-8 are replaced.
std::string whole_utf8(const std::string& text, std::size_t bytes);

// The last line of the file that looks like an error, its last three lines, and where the rest is:
// launchers print a page of their own behind what a rank has died of.
std::string last_words(const std::string& path);

}  // namespace shardproof

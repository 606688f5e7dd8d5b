// foreign: `checkpoint verify` and `checkpoint diff` where a side is somebody else's checkpoint.
// Thread rule: one thread.
#pragma once

#include <string>

namespace shardproof {

// A file, or a folder that has no checkpoint of ours and says of itself that it is another's.
bool is_foreign(const std::string& path);

// Prints every damage, by tensor. 0: whole, 1: damaged. Error bad_input for an unknown format.
int verify_foreign(const std::string& path, bool json);

// `left` and `right` are others' or DIR[/ID] of ours, whose parameters are compared by name. Error
// corrupt when a side is damaged. 0: same, 1: they differ.
int diff_across(const std::string& left, const std::string& right, bool json);

}  // namespace shardproof

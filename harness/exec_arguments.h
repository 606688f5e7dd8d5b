// exec_arguments: argument and environment arrays as the exec functions take them. The arrays point
// into their strings. Thread rule: pure, apart from this process's own environment.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace shardproof {

// "NAME=value" of this process, with `extra` in place of what has the same name.
std::vector<std::string> merged_environment(const std::map<std::string, std::string>& extra);

// Pointers to the strings, then a null.
std::vector<char*> exec_pointers(std::vector<std::string>& strings);

}  // namespace shardproof

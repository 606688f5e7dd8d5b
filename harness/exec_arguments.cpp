// exec_arguments: see the header.
#include "harness/exec_arguments.h"

extern char** environ;

namespace shardproof {

std::vector<std::string> merged_environment(const std::map<std::string, std::string>& extra) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string::npos) all[text.substr(0, equals)] = text.substr(equals + 1);
  }
  for (const auto& [key, value] : extra) all[key] = value;
  std::vector<std::string> lines;
  for (const auto& [key, value] : all) lines.push_back(key + "=" + value);
  return lines;
}

std::vector<char*> exec_pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace shardproof

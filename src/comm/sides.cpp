// sides: grouping by value.
#include "comm/sides.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardproof {

std::string rank_list(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (!text.empty()) text += ",";
    text += std::to_string(ranks[i]);
    if (end - i >= 2) text += (end - i == 2 ? "," : "-") + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string ranks_text(const std::vector<int>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") + rank_list(ranks);
}

std::string sides(const std::string& field,
                  const std::vector<std::pair<int, std::string>>& value_of_rank) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (const auto& [rank, value] : value_of_rank) {
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&value = value](const auto& known) { return known.first == value; });
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(rank);
  }
  if (groups.size() < 2) return "";
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
  std::string text;
  for (const auto& [value, ranks] : groups) {
    text += fmt::format("{}{} on {}", text.empty() ? field + ": " : "; ", value, ranks_text(ranks));
  }
  return text;
}

}  // namespace shardproof

// vote: sides, the largest of them, and the rest.
#include "train/vote.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace shardproof {

std::string print_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

Vote vote(const std::vector<Ballot>& ballots) {
  std::map<std::string, std::vector<int>> sides;
  for (const Ballot& ballot : ballots) sides[ballot.value].push_back(ballot.rank);
  Vote out;
  if (sides.size() <= 1) return out;
  out.unanimous = false;
  const auto largest = std::max_element(
      sides.begin(), sides.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  out.decided = 2 * largest->second.size() > ballots.size();
  std::string text;
  for (const auto& [value, ranks] : sides) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", print_ranks(ranks), value);
    if (out.decided && value == largest->first) continue;
    out.odd.insert(out.odd.end(), ranks.begin(), ranks.end());
  }
  std::sort(out.odd.begin(), out.odd.end());
  out.sentence = fmt::format(
      "{} ({})",
      out.decided ? fmt::format("{} {} the odd one{} out", print_ranks(out.odd),
                                out.odd.size() == 1 ? "is" : "are", out.odd.size() == 1 ? "" : "s")
                  : fmt::format("{} differ, and no majority says which is "
                                "wrong",
                                print_ranks(out.odd)),
      text);
  return out;
}

}  // namespace shardproof

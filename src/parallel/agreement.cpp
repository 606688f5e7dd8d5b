// agreement: texts are gathered, compared, and the ranks on each side named.
#include "parallel/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/json.h"

namespace shardproof {
namespace {

constexpr const char* absent = "(absent)";

std::string value_of(const Json& facts, const std::string& name) {
  return facts.contains(name) ? facts[name].get<std::string>() : absent;
}

using Sides = std::map<std::string, std::vector<int>>;  // the ranks that have a value

Sides sides_of(const std::vector<std::string>& values, const std::vector<int>& world_ranks) {
  Sides sides;
  for (std::size_t r = 0; r < values.size(); ++r) sides[values[r]].push_back(world_ranks[r]);
  return sides;
}

// "rank 2", "ranks 0-3, 7".
std::string print_ranks(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t begin = 0, end = 0; begin < ranks.size(); begin = end) {
    while (end < ranks.size() && ranks[end] == ranks[begin] + static_cast<int>(end - begin)) ++end;
    if (!text.empty()) text += ", ";
    text += std::to_string(ranks[begin]);
    if (end - begin > 1) text += (end - begin == 2 ? ", " : "-") + std::to_string(ranks[end - 1]);
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + text;
}

std::string print_value(const std::string& value) {
  return value.empty() ? "\"\"" : value;
}

[[noreturn]] void refuse(const std::string& name, const Sides& sides) {
  using Side = Sides::value_type;
  std::vector<const Side*> order;  // the odd ones first
  for (const Side& side : sides) order.push_back(&side);
  std::sort(order.begin(), order.end(), [](const Side* a, const Side* b) {
    const std::size_t left = a->second.size(), right = b->second.size();
    return left != right ? left < right : a->second.front() > b->second.front();
  });
  std::string text;
  for (const Side* side : order) {
    text += fmt::format("{}{} {} {}", text.empty() ? "" : "; ", print_ranks(side->second),
                        side->second.size() == 1 ? "has" : "have", print_value(side->first));
  }
  throw Error(ErrorKind::mismatch, "agreement on " + name, text, order.front()->second.front());
}

}  // namespace

void agree_on(Communicator& comm, const std::vector<Fact>& facts) {
  Json mine = Json::object();
  for (const Fact& fact : facts) mine[fact.name] = fact.value;
  std::vector<Json> all;
  for (const std::string& text : all_gather_text(comm, mine.dump())) {
    all.push_back(parse_json(text, "facts of rank " + std::to_string(all.size())));
  }
  Json names = Json::object();  // the union, so that a fact missing on some rank is seen everywhere
  for (const Json& rank : all) names.update(rank);
  for (const auto& [name, unused] : names.items()) {
    std::vector<std::string> values;
    for (const Json& rank : all) values.push_back(value_of(rank, name));
    const Sides sides = sides_of(values, comm.group().world_ranks);
    if (sides.size() > 1) refuse(name, sides);
  }
}

}  // namespace shardproof

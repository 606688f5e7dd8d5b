// agreement: texts are gathered, compared, and the odd ranks named.
#include "parallel/agreement.h"

#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "base/json.h"

namespace shardproof {
namespace {

constexpr const char* absent = "(absent)";

std::string value_of(const Json& facts, const std::string& name) {
  return facts.contains(name) ? facts[name].get<std::string>() : absent;
}

// The value of most ranks; of the lowest rank among equals.
std::string majority(const std::vector<std::string>& values) {
  std::map<std::string, int> votes;
  for (const std::string& value : values) ++votes[value];
  std::string best = values.front();
  for (const std::string& value : values) {
    if (votes[value] > votes[best]) best = value;
  }
  return best;
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
    const std::string expected = majority(values);
    for (std::size_t r = 0; r < values.size(); ++r) {
      if (values[r] == expected) continue;
      const int world_rank = comm.group().world_ranks[r];
      throw Error(
          ErrorKind::mismatch, "agreement on " + name,
          fmt::format("rank {} has {}, the others have {}", world_rank, values[r], expected),
          world_rank);
    }
  }
}

}  // namespace shardproof

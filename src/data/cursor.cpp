// cursor: the data cursor as JSON, for checkpoints. That of a mixture has sources in place of epoch
// and taken.
#include <fmt/format.h>

#include "base/error.h"
#include "data/loader.h"

namespace shardproof {
namespace {

Digest digest_member(const Json& json, const char* key, const std::string& place) {
  const std::string text = string_member(json, key, place);
  try {
    return Digest::from_hex(text);
  } catch (const Error& error) {
    throw Error(ErrorKind::corrupt, place, fmt::format("{}: {}", key, error.detail()));
  }
}

double number_member(const Json& json, const char* key, const std::string& place) {
  const Json& value = member(json, key, place);
  if (value.is_number()) return value.get<double>();
  throw Error(ErrorKind::corrupt, place,
              fmt::format("{}: found {}; expected a number", key, value.dump()));
}

Json source_json(const SourceCursor& source) {
  return {{"name", source.name},           {"weight", source.weight}, {"size", source.size},
          {"digest", source.digest.hex()}, {"before", source.before}, {"epoch", source.epoch},
          {"taken", source.taken}};
}

std::vector<SourceCursor> source_list(const Json& list, const std::string& place) {
  if (!list.is_array() || list.empty()) {
    throw Error(ErrorKind::corrupt, place, "sources: expected a list of at least one");
  }
  std::vector<SourceCursor> sources;
  for (const Json& json : list) {
    const std::string at = fmt::format("{}: sources[{}]", place, sources.size());
    sources.push_back({string_member(json, "name", at), number_member(json, "weight", at),
                       integer_member(json, "size", at), digest_member(json, "digest", at),
                       integer_member(json, "before", at), integer_member(json, "epoch", at),
                       integer_member(json, "taken", at)});
  }
  return sources;
}

}  // namespace

Json DataCursor::to_json() const {
  if (sources.empty()) {
    return {{"epoch", epoch}, {"taken", taken}, {"samples", samples}, {"ledger", ledger.hex()}};
  }
  Json list = Json::array();
  for (const SourceCursor& source : sources) list.push_back(source_json(source));
  return {{"samples", samples}, {"ledger", ledger.hex()}, {"since", since}, {"sources", list}};
}

DataCursor DataCursor::from_json(const Json& json, const std::string& place) {
  DataCursor cursor;
  cursor.samples = integer_member(json, "samples", place);
  cursor.ledger = digest_member(json, "ledger", place);
  if (json.contains("sources")) {
    cursor.since = integer_member(json, "since", place);
    cursor.sources = source_list(json["sources"], place);
    return cursor;
  }
  cursor.epoch = integer_member(json, "epoch", place);
  cursor.taken = integer_member(json, "taken", place);
  return cursor;
}

}  // namespace shardproof

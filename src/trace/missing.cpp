// missing: see missing.h.
#include "trace/missing.h"

#include <algorithm>

namespace shardproof {

std::vector<std::string> missing_keys(const StepRecord& record) {
  std::vector<std::string> keys;
  const auto list = record.extra.find("missing");
  if (list == record.extra.end() || !list->is_array()) return keys;
  for (const Json& key : *list) {
    if (key.is_string()) keys.push_back(key.get<std::string>());
  }
  return keys;
}

bool is_missing(const StepRecord& record, const char* key) {
  const auto list = record.extra.find("missing");
  if (list == record.extra.end() || !list->is_array()) return false;
  return std::find(list->begin(), list->end(), key) != list->end();
}

}  // namespace shardproof

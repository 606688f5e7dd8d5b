// pickle_graph: the values of a pickle while it is read: containers refer to others by index, since
// the memo may name one that is filled later, or several times. Internal to pickle. Thread rule:
// one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"

namespace shardproof::internal {

constexpr std::size_t max_pickle_values = std::size_t{1} << 21;

struct PickleValue {
  enum class Kind : std::uint8_t { plain, list, dict };
  Kind kind = Kind::plain;
  Json plain{};
  std::vector<std::uint32_t> items{};  // of a dict: key, value, key, value, ...
};

class PickleGraph {
 public:
  std::size_t size() const { return values_.size(); }
  void add(PickleValue value) { values_.push_back(std::move(value)); }
  PickleValue& at(std::uint32_t index) { return values_[index]; }
  // The tree below `root`, what is shared as often as it is named. Error bad_input within the
  // limits that pickle.h names.
  Json to_json(std::uint32_t root, const std::string& origin) const;

 private:
  std::vector<PickleValue> values_;
};

}  // namespace shardproof::internal

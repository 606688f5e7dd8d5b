// pickle_graph: from shared values to a tree, which a few bytes can make endless: so it is counted.
#include "base/pickle_graph.h"

#include <set>
#include <utility>

namespace shardproof::internal {

namespace {

constexpr int max_depth = 64;
constexpr std::size_t max_text = std::size_t{1} << 30;

class Converter {
 public:
  Converter(const std::vector<PickleValue>& values, const std::string& origin)
      : values_(values), origin_(origin) {}

  Json convert(std::uint32_t index, int depth) {
    const PickleValue& value = values_[index];
    if (depth > max_depth) fail("nesting deeper than 64");
    switch (value.kind) {
      case PickleValue::Kind::plain:
        count(value.plain.is_string() ? value.plain.get_ref<const std::string&>().size() : 0);
        return value.plain;
      case PickleValue::Kind::list: {
        count(0);
        Json list = Json::array();
        for (const std::uint32_t item : value.items) list.push_back(convert(item, depth + 1));
        return list;
      }
      default:
        count(0);
        return convert_dict(value, depth);
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::bad_input, origin_, what + "; expected a pickle of plain data");
  }
  void count(std::size_t text) {
    text_ += text;
    if (++converted_ > max_pickle_values || text_ > max_text) {
      fail("more than 2 million values or 1 GiB of text");
    }
  }

  std::string key_of(const PickleValue& key) const {
    const bool plain = key.kind == PickleValue::Kind::plain;
    if (plain && key.plain.is_string()) return key.plain.get<std::string>();
    if (plain && key.plain.is_number_integer()) {
      return std::to_string(key.plain.get<std::int64_t>());
    }
    fail("a key that is neither text nor integer");
  }

  Json convert_dict(const PickleValue& value, int depth) {
    Json dict = Json::object();
    auto& members = dict.get_ref<Json::object_t&>();
    std::set<std::string> keys;
    for (std::size_t i = 0; i < value.items.size(); i += 2) {
      std::string key = key_of(values_[value.items[i]]);
      if (!keys.insert(key).second) fail("the key '" + key + "' twice");
      count(key.size());
      // Not by operator[], which looks through all keys before it.
      members.push_back({std::move(key), convert(value.items[i + 1], depth + 1)});
    }
    return dict;
  }

  const std::vector<PickleValue>& values_;
  const std::string& origin_;
  std::size_t converted_ = 0;
  std::size_t text_ = 0;
};

}  // namespace

Json PickleGraph::to_json(std::uint32_t root, const std::string& origin) const {
  return Converter(values_, origin).convert(root, 0);
}

}  // namespace shardproof::internal
